package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// Every filter that decides by what manifests say; in kube-scheduler's own order.
var filters = []string{
	names.NodeUnschedulable,
	names.NodeName,
	names.TaintToleration,
	names.NodeAffinity,
	names.NodePorts,
	names.NodeResourcesFit,
	names.VolumeRestrictions,
	names.NodeVolumeLimits,
	names.VolumeBinding,
	names.VolumeZone,
	names.PodTopologySpread,
	names.InterPodAffinity,
}

// Oracle is kube-scheduler's framework over a cluster that can be replaced.
type Oracle struct {
	framework  framework.Framework
	snapshot   *replaceable
	namespaces cache.Indexer
	volumes    map[string]bool
}

// The filters ask it for nodes at every turn.
type replaceable struct{ fwk.SharedLister }

func newOracle(ctx context.Context, storage []runtime.Object) (*Oracle, error) {
	metrics.Register()
	client := fake.NewClientset(storage...)
	factory := informers.NewSharedInformerFactory(client, 0)
	profile, err := filterProfile()
	if err != nil {
		return nil, err
	}
	oracle := &Oracle{
		snapshot:   &replaceable{schedulercache.NewEmptySnapshot()},
		namespaces: factory.Core().V1().Namespaces().Informer().GetIndexer(),
		volumes:    map[string]bool{},
	}
	for _, object := range storage {
		if volume, ok := object.(*corev1.PersistentVolume); ok {
			oracle.volumes[volume.Name] = true
		}
	}
	oracle.framework, err = frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), profile,
		frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(oracle.snapshot),
		frameworkruntime.WithSharedCSIManager(
			nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
	)
	if err != nil {
		return nil, err
	}
	if len(storage) > 0 {
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
	}
	return oracle, nil
}

// The default profile with these filters and nothing that scores, binds or preempts in earnest.
func filterProfile() (*config.KubeSchedulerProfile, error) {
	defaults, err := latest.Default()
	if err != nil {
		return nil, err
	}
	profile := &defaults.Profiles[0]
	set := config.PluginSet{}
	for _, name := range filters {
		set.Enabled = append(set.Enabled, config.Plugin{Name: name})
	}
	// NodeName and NodeUnschedulable have nothing to do before the filters.
	before := config.PluginSet{Enabled: slices.Clone(set.Enabled[2:])}
	before.Enabled = slices.DeleteFunc(before.Enabled, func(plugin config.Plugin) bool {
		return plugin.Name == names.TaintToleration
	})
	profile.Plugins = &config.Plugins{
		PreFilter: before,
		Filter:    set,
		QueueSort: config.PluginSet{Enabled: []config.Plugin{{Name: names.PrioritySort}}},
		Bind:      config.PluginSet{Enabled: []config.Plugin{{Name: names.DefaultBinder}}},
	}
	return profile, nil
}

func (o *Oracle) verdicts(ctx context.Context, input *Case) (map[string]string, error) {
	namespaces := make([]any, 0, len(input.namespaces))
	for _, namespace := range input.namespaces {
		namespaces = append(namespaces, namespace)
	}
	if err := o.namespaces.Replace(namespaces, ""); err != nil {
		return nil, err
	}
	o.snapshot.SharedLister = schedulercache.NewSnapshot(input.running, input.nodes)
	// The caches of the volume filters follow their informers with a delay, and until then they do not know
	// volumes that are there.
	const attempts = 2000
	for attempt := 1; ; attempt++ {
		verdicts, err := o.verdictsNow(ctx, input)
		if attempt == attempts || (err == nil && !o.isBehind(verdicts)) {
			return verdicts, err
		}
		if len(o.volumes) == 0 {
			return verdicts, err
		}
		time.Sleep(time.Millisecond)
	}
}

func (o *Oracle) isBehind(verdicts map[string]string) bool {
	for _, verdict := range verdicts {
		if strings.Contains(verdict, volumebinding.ErrReasonPVNotExist) {
			return true
		}
	}
	return false
}

func (o *Oracle) verdictsNow(ctx context.Context, input *Case) (map[string]string, error) {
	state := framework.NewCycleState()
	result, status, _ := o.framework.RunPreFilterPlugins(ctx, state, input.pending)
	if status.Code() == fwk.Error {
		return nil, status.AsError()
	}
	verdicts := make(map[string]string, len(input.nodes))
	for _, node := range input.nodes {
		if !status.IsSuccess() {
			verdicts[node.Name] = said(status)
			continue
		}
		if result != nil && !result.AllNodes() && !result.NodeNames.Has(node.Name) {
			verdicts[node.Name] = "PreFilter: not among the nodes that it names"
			continue
		}
		info, err := o.snapshot.NodeInfos().Get(node.Name)
		if err != nil {
			return nil, err
		}
		verdict := o.framework.RunFilterPlugins(ctx, state, input.pending, info)
		if verdict.Code() == fwk.Error {
			return nil, verdict.AsError()
		}
		verdicts[node.Name] = ""
		if !verdict.IsSuccess() {
			verdicts[node.Name] = said(verdict)
		}
	}
	return verdicts, nil
}

func said(status *fwk.Status) string {
	return fmt.Sprintf("%s: %s", status.Plugin(), status.Message())
}
