//! What each component is told, all of it on loopback.

use std::path::Path;

use crate::certificates::Identity;
use crate::files::Files;
use crate::ports::Ports;
use crate::program::Program;

pub(crate) fn flags(program: Program, files: &Files, ports: Ports) -> Vec<String> {
    let path = |path: &Path| path.display().to_string();
    let http = |port: u16| format!("http://127.0.0.1:{port}");
    let kubeconfig = |identity: Identity| path(&files.kubeconfig(identity));
    let tls = [
        ("tls-cert-file", path(&files.server_certificate())),
        ("tls-private-key-file", path(&files.server_key())),
    ];
    let loopback = ("bind-address", "127.0.0.1".to_owned());
    let pairs: Vec<(&str, String)> = match program {
        Program::Etcd => vec![
            ("name", "default".to_owned()),
            ("data-dir", path(&files.etcd_data())),
            // The data is thrown away in the end.
            ("unsafe-no-fsync", "true".to_owned()),
            ("log-level", "warn".to_owned()),
            ("listen-client-urls", http(ports.etcd)),
            ("advertise-client-urls", http(ports.etcd)),
            ("listen-peer-urls", http(ports.etcd_peer)),
            ("initial-advertise-peer-urls", http(ports.etcd_peer)),
            ("initial-cluster", format!("default={}", http(ports.etcd_peer))),
        ],
        Program::KubeApiserver => [
            &[
                ("etcd-servers", http(ports.etcd)),
                loopback,
                ("advertise-address", "127.0.0.1".to_owned()),
                ("secure-port", ports.apiserver.to_string()),
                // Endpoints must not be loopback addresses, so the service `kubernetes` has none.
                ("endpoint-reconciler-type", "none".to_owned()),
                ("client-ca-file", path(&files.authority())),
                ("service-account-issuer", "https://kubernetes.default.svc".to_owned()),
                ("service-account-key-file", path(&files.token_public_key())),
                ("service-account-signing-key-file", path(&files.token_private_key())),
                ("service-cluster-ip-range", "10.0.0.0/24".to_owned()),
                ("authorization-mode", "Node,RBAC".to_owned()),
                ("enable-admission-plugins", "NodeRestriction".to_owned()),
                ("allow-privileged", "true".to_owned()),
                ("profiling", "false".to_owned()),
            ][..],
            &tls,
        ]
        .concat(),
        Program::KubeControllerManager => [
            &[
                ("kubeconfig", kubeconfig(Identity::ControllerManager)),
                ("authentication-kubeconfig", kubeconfig(Identity::ControllerManager)),
                ("authorization-kubeconfig", kubeconfig(Identity::ControllerManager)),
                loopback,
                ("secure-port", ports.controller_manager.to_string()),
                ("leader-elect", "false".to_owned()),
                ("use-service-account-credentials", "true".to_owned()),
                ("service-account-private-key-file", path(&files.token_private_key())),
                ("root-ca-file", path(&files.authority())),
                // The defaults would make a Deployment of 500 pods wait for 24 seconds.
                ("kube-api-qps", "500".to_owned()),
                ("kube-api-burst", "1000".to_owned()),
                ("profiling", "false".to_owned()),
            ][..],
            &tls,
        ]
        .concat(),
        Program::KubeScheduler => [
            &[
                ("config", path(&files.scheduler_configuration())),
                ("authentication-kubeconfig", kubeconfig(Identity::Scheduler)),
                ("authorization-kubeconfig", kubeconfig(Identity::Scheduler)),
                loopback,
                ("secure-port", ports.scheduler.to_string()),
            ][..],
            &tls,
        ]
        .concat(),
        Program::Kwok => vec![
            // Without it, kwok would read a file of the user's.
            ("config", path(&files.kwok_configuration())),
            ("kubeconfig", kubeconfig(Identity::Kwok)),
            ("node-ip", "127.0.0.1".to_owned()),
            ("server-address", format!("127.0.0.1:{}", ports.kwok)),
        ],
        Program::Kubectl => vec![("kubeconfig", kubeconfig(Identity::Admin))],
    };
    pairs.into_iter().map(|(name, value)| format!("--{name}={value}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORTS: Ports =
        Ports { etcd: 1, etcd_peer: 2, apiserver: 3, controller_manager: 4, scheduler: 5, kwok: 6 };

    #[test]
    fn each_component_is_told_where_to_listen_and_what_to_read() {
        for (program, expected) in [
            (
                Program::Etcd,
                &[
                    "--data-dir=/d/etcd",
                    "--listen-client-urls=http://127.0.0.1:1",
                    "--listen-peer-urls=http://127.0.0.1:2",
                    "--initial-cluster=default=http://127.0.0.1:2",
                ][..],
            ),
            (
                Program::KubeApiserver,
                &[
                    "--etcd-servers=http://127.0.0.1:1",
                    "--bind-address=127.0.0.1",
                    "--secure-port=3",
                    "--tls-cert-file=/d/server.crt",
                    "--service-account-key-file=/d/service-accounts.pub",
                    "--service-account-signing-key-file=/d/service-accounts.key",
                ],
            ),
            (
                Program::KubeControllerManager,
                &[
                    "--bind-address=127.0.0.1",
                    "--secure-port=4",
                    "--kubeconfig=/d/controller-manager.kubeconfig",
                    "--tls-cert-file=/d/server.crt",
                ],
            ),
            (
                Program::KubeScheduler,
                &["--bind-address=127.0.0.1", "--secure-port=5", "--config=/d/scheduler.json"],
            ),
            (
                Program::Kwok,
                &["--server-address=127.0.0.1:6", "--config=/d/kwok.yaml", "--kubeconfig=/d/kwok.kubeconfig"],
            ),
            (Program::Kubectl, &["--kubeconfig=/d/kubeconfig"]),
        ] {
            let told = flags(program, &Files::below(Path::new("/d")), PORTS);
            for flag in expected {
                assert!(told.iter().any(|one| one == flag), "{program} lacks {flag}: {told:?}");
            }
        }
    }

    #[test]
    fn nothing_is_told_twice_and_nothing_listens_elsewhere() {
        for program in Program::ALL {
            let told = flags(program, &Files::below(Path::new("/d")), PORTS);
            let mut names: Vec<&str> =
                told.iter().filter_map(|flag| flag.split_once('=')).map(|(name, _)| name).collect();
            names.sort_unstable();
            assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{program}: {names:?}");
            for flag in told.iter().filter(|flag| flag.contains("listen") || flag.contains("address")) {
                assert!(flag.contains("127.0.0.1"), "{program}: {flag}");
            }
        }
    }
}
