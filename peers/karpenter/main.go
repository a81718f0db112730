// Karpenter's scheduler on Berth's files: what it would launch for them, how long it takes, what it costs.
//
//	karpenter [-workers N] DIR
//
// DIR holds manifests (Pods, NodePools, DaemonSets; JSON or YAML) and catalog.json, as `berth catalog` writes
// it. One line of JSON is printed. Reading is not part of the time; there is no deadline.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/options"
)

const module = "sigs.k8s.io/karpenter"

// Measured is the one line that is printed. Its names are those of Berth's own benchmark.
type Measured struct {
	Version      string `json:"version"`
	Go           string `json:"go"`
	Pods         int    `json:"pods"`
	Microseconds int64  `json:"microseconds"`
	PeakKiB      uint64 `json:"peakKiB"`
	Nodes        int    `json:"nodes"`
	CostPerHour  string `json:"costPerHour"`
	Unplaced     int    `json:"unplaced"`
	// Why one of the unplaced pods has no place.
	FirstRefusal string `json:"firstRefusal,omitempty"`
}

func main() {
	// The number of workers of Karpenter's own scheduling benchmark.
	workers := flag.Int("workers", 5, "how many node claims are tried at once")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: karpenter [-workers N] DIR")
		os.Exit(2)
	}
	measured, err := measure(flag.Arg(0), *workers)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(measured)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func measure(dir string, workers int) (*Measured, error) {
	log.SetLogger(logr.Discard())
	input, err := readInput(dir)
	if err != nil {
		return nil, err
	}
	settings := &options.Options{}
	flags := &options.FlagSet{FlagSet: flag.NewFlagSet("karpenter", flag.ContinueOnError)}
	settings.AddFlags(flags)
	if err := settings.Parse(flags); err != nil {
		return nil, err
	}
	ctx := options.ToContext(injection.WithControllerName(context.Background(), "provisioner"), settings)
	scheduler, err := newScheduler(ctx, input, []scheduling.Options{
		scheduling.DisableReservedCapacityFallback,
		scheduling.NumConcurrentReconciles(workers),
		scheduling.MinValuesPolicy(settings.MinValuesPolicy),
	})
	if err != nil {
		return nil, err
	}
	// The garbage of reading is not the scheduler's.
	runtime.GC()
	start := time.Now()
	results, err := scheduler.Solve(ctx, input.pods)
	elapsed := time.Since(start)
	if err != nil {
		return nil, err
	}
	peak := peakMemoryKiB()
	results = results.TruncateInstanceTypes(ctx, scheduling.MaxInstanceTypes)
	cost, err := costMicroUSD(results)
	if err != nil {
		return nil, err
	}
	measured := &Measured{
		Version:      version(),
		Go:           runtime.Version(),
		Pods:         len(input.pods),
		Microseconds: elapsed.Microseconds(),
		PeakKiB:      peak,
		Nodes:        len(results.NewNodeClaims),
		CostPerHour:  fmt.Sprintf("%d.%06d", cost/1_000_000, cost%1_000_000),
		Unplaced:     len(results.PodErrors),
	}
	for pod, refusal := range results.PodErrors {
		measured.FirstRefusal = pod.Namespace + "/" + pod.Name + ": " + refusal.Error()
		break
	}
	return measured, nil
}

func newScheduler(ctx context.Context, input *Input, opts []scheduling.Options) (*scheduling.Scheduler, error) {
	objects := make([]client.Object, 0, len(input.namespaces))
	for _, namespace := range input.namespaces {
		objects = append(objects, namespace)
	}
	kube := fake.NewClientBuilder().WithObjects(objects...).Build()
	realClock := clock.RealClock{}
	cluster := state.NewCluster(realClock, kube, provider{types: input.types})
	types := map[string][]*cloudprovider.InstanceType{}
	for _, pool := range input.pools {
		types[pool.Name] = input.types
	}
	topology, err := scheduling.NewTopology(ctx, kube, cluster, nil, input.pools, types, input.pods, opts...)
	if err != nil {
		return nil, fmt.Errorf("counting domains: %w", err)
	}
	recorder := events.NewRecorder(&record.FakeRecorder{})
	return scheduling.NewScheduler(ctx, kube, input.pools, cluster, nil, topology, types, input.daemonPods,
		recorder, realClock, nil, nil, opts...), nil
}

// What the launches cost if each takes the cheapest offering that its claim leaves open, as a launch does.
func costMicroUSD(results scheduling.Results) (int64, error) {
	var sum int64
	for _, claim := range results.NewNodeClaims {
		var cheapest *cloudprovider.Offering
		for _, instanceType := range claim.InstanceTypeOptions {
			offerings := instanceType.Offerings.Available().Compatible(claim.Requirements)
			if len(offerings) == 0 {
				continue
			}
			if offering := offerings.Cheapest(); cheapest == nil || offering.Price < cheapest.Price {
				cheapest = offering
			}
		}
		if cheapest == nil {
			return 0, errors.New("a node claim has no offering left")
		}
		sum += int64(cheapest.Price*1e6 + 0.5)
	}
	return sum, nil
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return dependency.Version
		}
	}
	return "unknown"
}

// The most memory that the process ever had, from the kernel's own count.
func peakMemoryKiB() uint64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for _, line := range strings.Split(string(text), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib
		}
	}
	return 0
}
