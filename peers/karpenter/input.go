package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"

	karpenterv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/utils/daemonset"
	"sigs.k8s.io/karpenter/pkg/utils/nodepool"
)

const catalogFile = "catalog.json"

// Input is a folder of manifests and a catalog, as Karpenter's own types.
type Input struct {
	pods       []*corev1.Pod
	pools      []*karpenterv1.NodePool
	daemonPods []*corev1.Pod
	namespaces []*corev1.Namespace
	types      []*cloudprovider.InstanceType
}

func readInput(dir string) (*Input, error) {
	input := &Input{}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return nil, err
	}
	sort.Strings(names)
	for _, name := range names {
		extension := filepath.Ext(name)
		manifest := extension == ".json" || extension == ".yaml" || extension == ".yml"
		if !manifest || filepath.Base(name) == catalogFile {
			continue
		}
		if err := input.readFile(name); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if len(input.pools) == 0 {
		return nil, fmt.Errorf("%s: there is no NodePool", dir)
	}
	nodepool.OrderByWeight(input.pools)
	input.types, err = readCatalog(filepath.Join(dir, catalogFile))
	return input, err
}

func (input *Input) readFile(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var document json.RawMessage
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := input.admit(document); err != nil {
			return err
		}
	}
}

func (input *Input) admit(document json.RawMessage) error {
	var head struct {
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(document, &head); err != nil {
		return err
	}
	switch head.Kind {
	case "":
		return nil
	case "List", "PodList", "NodePoolList", "DaemonSetList":
		for _, item := range head.Items {
			if err := input.admit(item); err != nil {
				return err
			}
		}
	case "Pod":
		pod := &corev1.Pod{}
		if err := json.Unmarshal(document, pod); err != nil {
			return err
		}
		if pod.Spec.NodeName != "" {
			return fmt.Errorf("pod %s runs already; only pods without a place are read here", pod.Name)
		}
		input.pods = append(input.pods, asAdmitted(pod))
	case "NodePool":
		pool := &karpenterv1.NodePool{}
		if err := json.Unmarshal(document, pool); err != nil {
			return err
		}
		if pool.Spec.Template.Spec.NodeClassRef == nil {
			return fmt.Errorf("NodePool %s has no nodeClassRef", pool.Name)
		}
		input.pools = append(input.pools, pool)
	case "DaemonSet":
		set := &appsv1.DaemonSet{}
		if err := json.Unmarshal(document, set); err != nil {
			return err
		}
		pod := daemonset.PodForDaemonSet(set)
		pod.Labels = set.Spec.Template.Labels
		input.daemonPods = append(input.daemonPods, pod)
	case "Namespace":
		namespace := &corev1.Namespace{}
		if err := json.Unmarshal(document, namespace); err != nil {
			return err
		}
		input.namespaces = append(input.namespaces, namespace)
	case "KWOKNodeClass", "EC2NodeClass":
		// The catalog stands for what a class would make of it.
	default:
		// To leave out what Berth plans with would compare different things.
		return fmt.Errorf("kind %s is not read here", head.Kind)
	}
	return nil
}

// The pod as the API server would have stored it, as far as the scheduler can tell.
func asAdmitted(pod *corev1.Pod) *corev1.Pod {
	if pod.Namespace == "" {
		pod.Namespace = corev1.NamespaceDefault
	}
	// The scheduler keeps what it knows of a pod by its UID, and breaks ties by it.
	if pod.UID == "" {
		pod.UID = types.UID(pod.Namespace + "/" + pod.Name)
	}
	pod.Status.Phase = corev1.PodPending
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			resources := &containers[i].Resources
			for name, quantity := range resources.Limits {
				if _, ok := resources.Requests[name]; ok {
					continue
				}
				if resources.Requests == nil {
					resources.Requests = corev1.ResourceList{}
				}
				resources.Requests[name] = quantity
			}
		}
	}
	return pod
}
