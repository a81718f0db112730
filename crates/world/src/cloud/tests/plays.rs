//! One play for each thing that a cloud does or that goes wrong with it.

use super::check;

#[test]
fn a_life_in_fair_weather() {
    check(
        "{}",
        "0 launch a; 1 get m0; 60 list; 100 terminate m0; 101 terminate m0; 105 list; 120 terminate m0; 120 list",
        &[
            "0 launch a = m0:a:pending c-1/a/spot 0.005000",
            "1 get m0 = m0:a:pending",
            "20 m0 runs",
            "45 m0 joins as n-a zone=a team=quay tainted",
            "60 list = [m0:a:running]",
            "100 terminate m0 = accepted",
            "100 m0 leaves as n-a",
            "101 terminate m0 = accepted",
            "105 list = [m0:a:stopping]",
            "110 m0 ends Terminated",
            "120 terminate m0 = ! not found m0",
            "120 list = []",
        ],
    );
}

#[test]
fn a_token_buys_one_machine_for_ever() {
    check(
        "{}",
        "0 launch a; 1 launch a; 2 launch a c-2/b/spot; 3 launch b; 4 terminate m0; 30 launch a; 30 list",
        &[
            "0 launch a = m0:a:pending c-1/a/spot 0.005000",
            "1 launch a = m0:a:pending c-1/a/spot 0.005000",
            "2 launch a c-2/b/spot = m0:a:pending c-1/a/spot 0.005000",
            "3 launch b = m1:b:pending c-1/a/spot 0.005000",
            "4 terminate m0 = accepted",
            "14 m0 ends Terminated",
            "23 m1 runs",
            "30 launch a = m0:a:gone c-1/a/spot 0.005000",
            "30 list = [m1:b:running]",
        ],
    );
}

#[test]
fn what_is_not_valid() {
    check(
        "{}",
        "0 launch a ,; 0 launch A; 0 launch a c-9/a/spot; 0 get m7; 0 terminate m7",
        &[
            "0 launch a , = ! the order is not valid: it names no offering",
            "0 launch A = ! the order is not valid: `n-A` cannot be the name of a node",
            "0 launch a c-9/a/spot = ! none of the offerings can be had: c-9 in a as spot is not offered",
            "0 get m7 = ! not found m7",
            "0 terminate m7 = ! not found m7",
        ],
    );
}

#[test]
fn stock_runs_out_and_comes_back() {
    let both = "c-1/a/spot,c-1/b/on-demand";
    check(
        r#"{"stock": [{"of": {"instanceType": "c-*", "zone": "a", "capacityType": "spot"}, "count": 1},
                      {"atMs": 100000, "of": {"zone": "a"}, "count": 0},
                      {"atMs": 200000, "count": 5}]}"#,
        &format!(
            "0 launch a; 0 launch b; 0 launch c {both}; 1 terminate m0; 19 launch d; 150 launch e; 150 launch f m-4/a/on-demand; 250 launch g"
        ),
        &[
            "0 launch a = m0:a:pending c-1/a/spot 0.005000",
            "0 launch b = ! none of the offerings can be had: c-1 in a as spot is out of stock",
            "0 launch c c-1/a/spot,c-1/b/on-demand = m1:c:pending c-1/b/on-demand 0.010000; c-1 in a as spot is out of stock",
            "1 terminate m0 = accepted",
            "11 m0 ends Terminated",
            "19 launch d = m2:d:pending c-1/a/spot 0.005000",
            "20 m1 runs",
            "39 m2 runs",
            "45 m1 joins as n-c zone=a team=quay tainted",
            "64 m2 joins as n-d zone=a team=quay tainted",
            "150 launch e = ! none of the offerings can be had: c-1 in a as spot is out of stock",
            "150 launch f m-4/a/on-demand = ! none of the offerings can be had: m-4 in a as on-demand is out of stock",
            "250 launch g = m3:g:pending c-1/a/spot 0.005000",
        ],
    );
}

#[test]
fn quotas_count_what_lives() {
    check(
        r#"{"quotas": [{"name": "spot", "of": {"capacityType": "spot"}, "machinesMax": 1},
                       {"name": "vcpus of m", "of": {"instanceType": "m-*"}, "vcpusMax": 4},
                       {"name": "all", "machinesMax": 3},
                       {"name": "all", "atMs": 60000, "machinesMax": 100}]}"#,
        "0 launch a; 0 launch b; 0 launch c m-4/a/on-demand; 0 launch d m-4/b/on-demand; 0 launch e c-1/b/on-demand; \
         0 launch f c-2/b/on-demand; 1 terminate m0; 11 launch g; 61 launch f c-2/b/on-demand",
        &[
            "0 launch a = m0:a:pending c-1/a/spot 0.005000",
            "0 launch b = ! none of the offerings can be had: any type as spot is beyond the quota spot",
            "0 launch c m-4/a/on-demand = m1:c:pending m-4/a/on-demand 0.040000",
            "0 launch d m-4/b/on-demand = ! none of the offerings can be had: m-4 is beyond the quota vcpus of m",
            "0 launch e c-1/b/on-demand = m2:e:pending c-1/b/on-demand 0.010000",
            "0 launch f c-2/b/on-demand = ! none of the offerings can be had: any type is beyond the quota all",
            "1 terminate m0 = accepted",
            "11 m0 ends Terminated",
            "11 launch g = m3:g:pending c-1/a/spot 0.005000",
            "20 m1 runs",
            "20 m2 runs",
            "31 m3 runs",
            "45 m1 joins as n-c zone=a team=quay tainted",
            "45 m2 joins as n-e zone=a team=quay tainted",
            "56 m3 joins as n-g zone=a team=quay tainted",
            "61 launch f c-2/b/on-demand = m4:f:pending c-2/b/on-demand 0.020000",
        ],
    );
}

#[test]
fn prices_change_and_feeds_go_stale() {
    check(
        r#"{"prices": [{"atMs": 30000, "of": {"zone": "b"}, "price": {"microUsd": -7}},
                       {"atMs": 10000, "price": {"permille": 1500}},
                       {"atMs": 20000, "of": {"capacityType": "spot"}, "price": {"permille": 2000}}],
            "withdrawals": [{"of": {"instanceType": "c-1"}, "window": {"fromMs": 50000, "untilMs": 60000}}],
            "staleCatalogs": [{"fromMs": 15000, "untilMs": 25000}]}"#,
        "0 price c-1/a/spot; 10 price c-1/a/spot; 22 price c-1/a/spot; 22 launch a; 25 price c-1/a/spot; \
         30 price c-1/b/spot; 50 price c-1/a/spot; 50 price c-2/a/spot; 50 launch b; 60 price c-1/a/spot",
        &[
            "0 price c-1/a/spot = 0.005000",
            "10 price c-1/a/spot = 0.007500",
            "22 price c-1/a/spot = 0.007500",
            "22 launch a = m0:a:pending c-1/a/spot 0.015000",
            "25 price c-1/a/spot = 0.015000",
            "30 price c-1/b/spot = -0.000007",
            "42 m0 runs",
            "50 price c-1/a/spot = none",
            "50 price c-2/a/spot = 0.030000",
            "50 launch b = ! none of the offerings can be had: c-1 in a as spot is not offered",
            "60 price c-1/a/spot = 0.015000",
        ],
    );
}

#[test]
fn calls_fail_before_and_after_their_effect() {
    check(
        r#"{"calls": {"launch": {"denied": {"nth": [1]}, "throttled": {"nth": [2]}, "retryAfterMs": 1500,
                                 "unreachable": {"nth": [3]}, "replyLost": {"nth": [4]}},
                      "terminate": {"replyLost": {"permille": 1000, "between": {"fromMs": 0, "untilMs": 10000}}}}}"#,
        "0 launch a; 0 launch a; 0 launch a; 0 list; 0 launch a; 0 list; 0 launch a; 1 terminate m0; 19 terminate m0",
        &[
            "0 launch a = ! the cloud does not allow it: the credentials are not accepted",
            "0 launch a = ! throttled Some(1.5s)",
            "0 launch a = ! whether the cloud did it is not known: the cloud cannot be reached",
            "0 list = []",
            "0 launch a = ! whether the cloud did it is not known: the answer was lost",
            "0 list = [m0:a:pending]",
            "0 launch a = m0:a:pending c-1/a/spot 0.005000",
            "1 terminate m0 = ! whether the cloud did it is not known: the answer was lost",
            "11 m0 ends Terminated",
            "19 terminate m0 = ! not found m0",
        ],
    );
}

#[test]
fn launches_are_underway_substituted_untagged_or_stillborn() {
    check(
        r#"{"launches": {"underway": {"nth": [1]}, "substituted": {"nth": [2]}, "untagged": {"nth": [3]}, "stillborn": {"nth": [4]}},
            "joins": {"never": {"permille": 1000}}}"#,
        "0 launch a; 0 launch b c-1/a/spot,c-2/a/spot; 0 launch c; 0 launch d; 0 list; 20 launch a; 20 launch d; 20 list",
        &[
            "0 launch a = underway",
            "0 launch b c-1/a/spot,c-2/a/spot = m1:b:pending m-4/a/spot 0.020000",
            "0 launch c = m2:c:pending c-1/a/spot 0.005000",
            "0 launch d = m3:d:pending c-1/a/spot 0.005000",
            "0 list = [m0:a:pending m1:b:pending m2:-:pending m3:d:pending]",
            "20 m0 runs",
            "20 m1 runs",
            "20 m2 runs",
            "20 m3 ends Stillborn",
            "20 launch a = m0:a:running c-1/a/spot 0.005000",
            "20 launch d = m3:d:gone c-1/a/spot 0.005000",
            "20 list = [m0:a:running m1:b:running m2:-:running]",
        ],
    );
}

#[test]
fn machines_join_never_late_again_or_as_somebody_else() {
    check(
        r#"{"joins": {"never": {"nth": [1]}, "late": {"nth": [2]}, "lateBy": {"leastMs": 900000, "mostMs": 900000},
                      "again": {"nth": [3]}, "namesake": {"nth": [4]},
                      "unlabelled": {"nth": [5]}, "untainted": {"nth": [6]}, "mislabelled": {"nth": [7]}}}"#,
        "0 launch a; 0 launch b; 0 launch c; 0 launch d; 0 launch e; 0 launch f; 0 launch g; 20 wait; 1000 list",
        &[
            "0 launch a = m0:a:pending c-1/a/spot 0.005000",
            "0 launch b = m1:b:pending c-1/a/spot 0.005000",
            "0 launch c = m2:c:pending c-1/a/spot 0.005000",
            "0 launch d = m3:d:pending c-1/a/spot 0.005000",
            "0 launch e = m4:e:pending c-1/a/spot 0.005000",
            "0 launch f = m5:f:pending c-1/a/spot 0.005000",
            "0 launch g = m6:g:pending c-1/a/spot 0.005000",
            "20 m0 runs",
            "20 m1 runs",
            "20 m2 runs",
            "20 m3 runs",
            "20 m4 runs",
            "20 m5 runs",
            "20 m6 runs",
            "45 m2 joins as n-c zone=a team=quay tainted",
            "45 m3 joins as n-c zone=a team=quay tainted",
            "45 m4 joins as n-e tainted",
            "45 m5 joins as n-f zone=a team=quay",
            "45 m6 joins as n-g zone=elsewhere team=quay tainted",
            "105 m2 leaves as n-c",
            "105 m2 joins as n-c zone=a team=quay tainted",
            "945 m1 joins as n-b zone=a team=quay tainted",
            "1000 list = [m0:a:running m1:b:running m2:c:running m3:d:running m4:e:running m5:f:running m6:g:running]",
        ],
    );
}

#[test]
fn who_is_stopped_does_not_join() {
    check(
        "{}",
        "0 launch a; 0 launch b; 10 terminate m0; 30 terminate m1; 100 list",
        &[
            "0 launch a = m0:a:pending c-1/a/spot 0.005000",
            "0 launch b = m1:b:pending c-1/a/spot 0.005000",
            "10 terminate m0 = accepted",
            "20 m1 runs",
            "20 m0 ends Terminated",
            "30 terminate m1 = accepted",
            "40 m1 ends Terminated",
            "100 list = []",
        ],
    );
}

#[test]
fn terminations_are_ignored_or_slow() {
    check(
        r#"{"terminations": {"ignored": {"nth": [1]}, "slow": {"nth": [1]}, "slowBy": {"leastMs": 60000, "mostMs": 60000}}}"#,
        "0 launch a; 50 terminate m0; 80 list; 80 terminate m0; 139 list; 145 list; 150 terminate m0",
        &[
            "0 launch a = m0:a:pending c-1/a/spot 0.005000",
            "20 m0 runs",
            "45 m0 joins as n-a zone=a team=quay tainted",
            "50 terminate m0 = accepted",
            "80 list = [m0:a:running]",
            "80 terminate m0 = accepted",
            "139 list = [m0:a:running]",
            "140 m0 leaves as n-a",
            "145 list = [m0:a:stopping]",
            "150 m0 ends Terminated",
            "150 terminate m0 = ! not found m0",
        ],
    );
}

#[test]
fn lists_are_eventual() {
    check(
        r#"{"times": {"appear": {"leastMs": 5000, "mostMs": 5000}, "disappear": {"leastMs": 60000, "mostMs": 60000}}}"#,
        "0 launch a; 4 list; 4 get m0; 5 list; 10 terminate m0; 79 list; 79 get m0; 79 terminate m0; 80 list; 80 get m0",
        &[
            "0 launch a = m0:a:pending c-1/a/spot 0.005000",
            "4 list = []",
            "4 get m0 = ! not found m0",
            "5 list = [m0:a:pending]",
            "10 terminate m0 = accepted",
            "20 m0 ends Terminated",
            "79 list = [m0:a:stopping]",
            "79 get m0 = m0:a:stopping",
            "79 terminate m0 = ! not found m0",
            "80 list = []",
            "80 get m0 = ! not found m0",
        ],
    );
}

#[test]
fn lists_have_pages_and_lie() {
    let strangers = r#"[{"name": "theirs", "instanceType": "x", "zone": "a", "capacityType": "on-demand"},
        {"name": "others", "instanceType": "x", "zone": "a", "capacityType": "spot", "tags": {"berth.dev/claim-uid": "uid"}}]"#;
    check(
        &format!(
            r#"{{"strangers": {strangers},
                "lists": {{"pageSize": 2, "empty": {{"nth": [3]}}, "cut": {{"nth": [4]}}, "doubled": {{"nth": [5]}}, "elsewhere": {{"nth": [6]}}}},
                "calls": {{"list": {{"unreachable": {{"nth": [8]}}}}}}}}"#
        ),
        "0 launch a; 0 launch b; 1 list; 1 list on; 1 list; 1 list; 1 list; 1 list; 1 list; 1 list on",
        &[
            "0 launch a = m2:a:pending c-1/a/spot 0.005000",
            "0 launch b = m3:b:pending c-1/a/spot 0.005000",
            "1 list = [m0:-:running m1:uid:running] and more",
            "1 list on = [m2:a:pending m3:b:pending]",
            "1 list = []",
            "1 list = [m0:-:running m1:uid:running]",
            "1 list = [m0:-:running m0:-:running m1:uid:running m1:uid:running] and more",
            "1 list = [m0:-:running m1:uid:running]",
            "1 list = [m0:-:running m1:uid:running] and more",
            "1 list on = ! whether the cloud did it is not known: the cloud cannot be reached",
        ],
    );
}

#[test]
fn spot_is_reclaimed_by_zone_pool_or_count_with_notice() {
    check(
        r#"{"times": {"launch": {"leastMs": 0, "mostMs": 0}}, "joins": {"never": {"permille": 1000}},
            "reclaims": [{"atMs": 10000, "of": {"zone": "b"}},
                         {"atMs": 20000, "pool": "p", "machinesMax": 1, "noticeMs": 5000},
                         {"atMs": 30000, "kind": "rebalance", "pool": "q", "of": {}},
                         {"atMs": 200000, "kind": "maintenance", "pool": "q", "of": {"capacityType": "on-demand"}, "noticeMs": 60000}]}"#,
        "0 launch p1; 0 launch p2 c-1/b/spot; 0 launch q c-1/a/on-demand; 11 notices; 26 notices; 31 notices; 131 notices; 300 notices",
        &[
            "0 launch p1 = m0:p1:pending c-1/a/spot 0.005000",
            "0 m0 runs",
            "0 launch p2 c-1/b/spot = m1:p2:pending c-1/b/spot 0.005000",
            "0 m1 runs",
            "0 launch q c-1/a/on-demand = m2:q:pending c-1/a/on-demand 0.010000",
            "0 m2 runs",
            "10 m1 has notice of Reclaim, told",
            "11 notices = [m1 Reclaim]",
            "20 m0 has notice of Reclaim, told",
            "25 m0 ends Reclaimed",
            "26 notices = [m1 Reclaim]",
            "30 m2 has notice of Rebalance, told",
            "31 notices = [m1 Reclaim, m2 Rebalance]",
            "130 m1 ends Reclaimed",
            "131 notices = [m2 Rebalance]",
            "200 m2 has notice of Maintenance, told",
            "260 m2 ends Reclaimed",
            "300 notices = []",
        ],
    );
}

#[test]
fn notices_are_lost_or_repeated() {
    check(
        r#"{"notices": {"lost": {"nth": [1]}, "repeated": {"nth": [2]}}, "reclaims": [{"atMs": 50000, "sharePermille": 1000}]}"#,
        "0 launch a; 1 launch b; 51 notices; 100 terminate m0; 200 list",
        &[
            "0 launch a = m0:a:pending c-1/a/spot 0.005000",
            "1 launch b = m1:b:pending c-1/a/spot 0.005000",
            "20 m0 runs",
            "21 m1 runs",
            "45 m0 joins as n-a zone=a team=quay tainted",
            "46 m1 joins as n-b zone=a team=quay tainted",
            "50 m0 has notice of Reclaim, not told",
            "50 m1 has notice of Reclaim, told",
            "51 notices = [m1 Reclaim, m1 Reclaim]",
            "100 terminate m0 = accepted",
            "100 m0 leaves as n-a",
            "110 m0 ends Terminated",
            "170 m1 leaves as n-b",
            "170 m1 ends Reclaimed",
            "200 list = []",
        ],
    );
}

#[test]
fn somebody_takes_a_hand() {
    check(
        r#"{"prices": [{"atMs": 5000, "price": {"permille": 2000}}]}"#,
        "0 launch a; 0 launch b c-1/b/spot; 0 launch c c-1/a/on-demand; 50 reclaim 500; 51 notices; 52 reclaim 1000; \
         53 reclaim 1000; 200 list",
        &[
            "0 launch a = m0:a:pending c-1/a/spot 0.005000",
            "0 launch b c-1/b/spot = m1:b:pending c-1/b/spot 0.005000",
            "0 launch c c-1/a/on-demand = m2:c:pending c-1/a/on-demand 0.010000",
            "20 m0 runs",
            "20 m1 runs",
            "20 m2 runs",
            "45 m0 joins as n-a zone=a team=quay tainted",
            "45 m1 joins as n-b zone=a team=quay tainted",
            "45 m2 joins as n-c zone=a team=quay tainted",
            "50 reclaim 500 = 1",
            "50 m0 has notice of Reclaim, told",
            "51 notices = [m0 Reclaim]",
            "52 reclaim 1000 = 1",
            "52 m1 has notice of Reclaim, told",
            "53 reclaim 1000 = 0",
            "170 m0 leaves as n-a",
            "170 m0 ends Reclaimed",
            "172 m1 leaves as n-b",
            "172 m1 ends Reclaimed",
            "200 list = [m2:c:running]",
        ],
    );
    check(
        r#"{"prices": [{"atMs": 5000, "price": {"permille": 2000}}]}"#,
        "1 reprice 500; 2 price c-1/a/spot; 3 reprice 3000; 4 price c-1/a/spot; 4 price c-1/a/on-demand; \
         6 price c-1/a/spot; 7 reprice 1000; 8 price c-1/a/spot",
        &[
            "2 price c-1/a/spot = 0.002500",
            "4 price c-1/a/spot = 0.015000",
            "4 price c-1/a/on-demand = 0.010000",
            "6 price c-1/a/spot = 0.030000",
            "8 price c-1/a/spot = 0.010000",
        ],
    );
    check(
        "{}",
        "0 launch a; 1 cut off; 2 launch b; 2 list; 30 cut on; 31 launch b; 31 list",
        &[
            "0 launch a = m0:a:pending c-1/a/spot 0.005000",
            "2 launch b = ! whether the cloud did it is not known: the cloud cannot be reached",
            "2 list = ! whether the cloud did it is not known: the cloud cannot be reached",
            "20 m0 runs",
            "31 launch b = m1:b:pending c-1/a/spot 0.005000",
            "31 list = [m0:a:running m1:b:pending]",
        ],
    );
}
