// kube-scheduler's own filters as an oracle: may this pod run on that node?
//
// Each line of the standard input is a `List` of manifests with exactly one pod that has no node. Each line of
// the output has a verdict for every node: an empty text if all filters admit the pod there, else which filter
// refuses it and why.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	storagedefaults "k8s.io/kubernetes/pkg/apis/storage/v1"
)

const (
	lineBytesMax  = 16 << 20
	bindCompleted = "pv.kubernetes.io/bind-completed"
)

// Case is a cluster and a pod that looks for a place in it.
type Case struct {
	pending    *corev1.Pod
	running    []*corev1.Pod
	nodes      []*corev1.Node
	namespaces []*corev1.Namespace
	// Claims, volumes, classes and what nodes can attach.
	storage []runtime.Object
}

// Answer is one line of the output.
type Answer struct {
	// By the node's name.
	Verdicts map[string]string `json:"verdicts,omitempty"`
	// The case makes no sense.
	Error string `json:"error,omitempty"`
}

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve() error {
	ctx := context.Background()
	oracle, err := newOracle(ctx, nil)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, lineBytesMax)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		answer := Answer{}
		if answer.Verdicts, err = judge(ctx, oracle, lines.Bytes()); err != nil {
			answer.Error = err.Error()
		}
		if err := out.Encode(answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

func judge(ctx context.Context, oracle *Oracle, line []byte) (map[string]string, error) {
	input, err := readCase(line)
	if err != nil {
		return nil, err
	}
	if len(input.storage) == 0 {
		return oracle.verdicts(ctx, input)
	}
	// The volume filters keep caches that only informers can fill: such a case has an oracle of its own.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	own, err := newOracle(ctx, input.storage)
	if err != nil {
		return nil, err
	}
	return own.verdicts(ctx, input)
}

func readCase(line []byte) (*Case, error) {
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(line, &list); err != nil {
		return nil, err
	}
	input := &Case{}
	for _, item := range list.Items {
		if err := input.admit(item); err != nil {
			return nil, err
		}
	}
	if input.pending == nil {
		return nil, errors.New("no pod looks for a place")
	}
	known := map[string]bool{}
	for _, node := range input.nodes {
		known[node.Name] = true
	}
	for _, pod := range input.running {
		// The scheduler's cache never shows a node to the filters that it has no object for.
		if !known[pod.Spec.NodeName] {
			return nil, fmt.Errorf("pod %s runs on %s, which does not exist", pod.Name, pod.Spec.NodeName)
		}
		for _, volume := range pod.Spec.Volumes {
			if source := volume.PersistentVolumeClaim; source != nil && !input.isBound(pod.Namespace, source.ClaimName) {
				return nil, fmt.Errorf("pod %s runs without a volume for claim %s", pod.Name, source.ClaimName)
			}
		}
	}
	return input, nil
}

func (c *Case) isBound(namespace, name string) bool {
	for _, object := range c.storage {
		claim, ok := object.(*corev1.PersistentVolumeClaim)
		if ok && claim.Namespace == namespace && claim.Name == name {
			return claim.Spec.VolumeName != ""
		}
	}
	return false
}

func (c *Case) admit(item json.RawMessage) error {
	var head metav1.TypeMeta
	if err := json.Unmarshal(item, &head); err != nil {
		return err
	}
	switch head.Kind {
	case "Pod":
		pod := &corev1.Pod{}
		if err := json.Unmarshal(item, pod); err != nil {
			return err
		}
		return c.admitPod(pod)
	case "Node":
		node := &corev1.Node{}
		c.nodes = append(c.nodes, node)
		if err := json.Unmarshal(item, node); err != nil {
			return err
		}
		defaults.SetObjectDefaults_Node(node)
		// Every kubelet sets it, and Berth assumes it.
		if node.Labels[corev1.LabelHostname] == "" {
			return fmt.Errorf("node %s has no hostname", node.Name)
		}
	case "Namespace":
		namespace := &corev1.Namespace{}
		c.namespaces = append(c.namespaces, namespace)
		if err := json.Unmarshal(item, namespace); err != nil {
			return err
		}
		defaults.SetObjectDefaults_Namespace(namespace)
	case "PersistentVolumeClaim":
		claim := &corev1.PersistentVolumeClaim{}
		c.storage = append(c.storage, claim)
		if err := json.Unmarshal(item, claim); err != nil {
			return err
		}
		defaults.SetObjectDefaults_PersistentVolumeClaim(claim)
		if claim.Namespace == "" {
			claim.Namespace = corev1.NamespaceDefault
		}
		claim.UID = uid(claim)
		// Controllers will see to both soon, and Berth plans ahead of them.
		if claim.Spec.StorageClassName == nil {
			return fmt.Errorf("claim %s has no class", claim.Name)
		}
		if claim.Spec.VolumeName != "" && claim.Annotations[bindCompleted] == "" {
			return fmt.Errorf("claim %s is about to be bound", claim.Name)
		}
	case "PersistentVolume":
		volume := &corev1.PersistentVolume{}
		c.storage = append(c.storage, volume)
		if err := json.Unmarshal(item, volume); err != nil {
			return err
		}
		defaults.SetObjectDefaults_PersistentVolume(volume)
	case "StorageClass":
		class := &storagev1.StorageClass{}
		c.storage = append(c.storage, class)
		if err := json.Unmarshal(item, class); err != nil {
			return err
		}
		storagedefaults.SetObjectDefaults_StorageClass(class)
	case "CSINode":
		node := &storagev1.CSINode{}
		c.storage = append(c.storage, node)
		return json.Unmarshal(item, node)
	default:
		return fmt.Errorf("kind %s is not read here", head.Kind)
	}
	return nil
}

func (c *Case) admitPod(pod *corev1.Pod) error {
	if pod.Namespace == "" {
		pod.Namespace = corev1.NamespaceDefault
	}
	defaults.SetObjectDefaults_Pod(pod)
	mergeLabelKeys(pod)
	pod.UID = uid(pod)
	finished := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	switch {
	case finished:
		// The scheduler does not even watch them.
	case pod.Spec.NodeName != "":
		c.running = append(c.running, pod)
	case c.pending != nil:
		return errors.New("more than one pod looks for a place")
	default:
		c.pending = pod
	}
	return nil
}

func uid(object metav1.Object) types.UID {
	return types.UID(object.GetNamespace() + "/" + object.GetName())
}

// What the API server does to pods when they are created: their own labels become part of the selectors.
func mergeLabelKeys(pod *corev1.Pod) {
	merge := func(selector *metav1.LabelSelector, keys []string, operator metav1.LabelSelectorOperator) {
		if selector == nil {
			return
		}
		for _, key := range keys {
			if value, ok := pod.Labels[key]; ok {
				selector.MatchExpressions = append(selector.MatchExpressions,
					metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: []string{value}})
			}
		}
	}
	terms := func(terms []corev1.PodAffinityTerm) {
		for i := range terms {
			merge(terms[i].LabelSelector, terms[i].MatchLabelKeys, metav1.LabelSelectorOpIn)
			merge(terms[i].LabelSelector, terms[i].MismatchLabelKeys, metav1.LabelSelectorOpNotIn)
		}
	}
	if affinity := pod.Spec.Affinity; affinity != nil {
		if affinity.PodAffinity != nil {
			terms(affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		}
		if affinity.PodAntiAffinity != nil {
			terms(affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		}
	}
	for i := range pod.Spec.TopologySpreadConstraints {
		constraint := &pod.Spec.TopologySpreadConstraints[i]
		merge(constraint.LabelSelector, constraint.MatchLabelKeys, metav1.LabelSelectorOpIn)
	}
}
