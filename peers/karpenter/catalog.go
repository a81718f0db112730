package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	karpenterv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

type catalogDocument struct {
	Kind  string         `json:"kind"`
	Types []typeDocument `json:"types"`
}

type typeDocument struct {
	Name      string              `json:"name"`
	Labels    map[string]string   `json:"labels"`
	Capacity  corev1.ResourceList `json:"capacity"`
	Overhead  corev1.ResourceList `json:"overhead"`
	Offerings []offeringDocument  `json:"offerings"`
}

type offeringDocument struct {
	Zone         string            `json:"zone"`
	CapacityType string            `json:"capacityType"`
	PricePerHour string            `json:"pricePerHour"`
	Available    *bool             `json:"available"`
	Remaining    *int              `json:"remaining"`
	Labels       map[string]string `json:"labels"`
}

// provider is a cloud that can be asked for its types, and for nothing else: the scheduler asks for no more.
type provider struct {
	cloudprovider.CloudProvider
	types []*cloudprovider.InstanceType
}

func (p provider) GetInstanceTypes(context.Context, *karpenterv1.NodePool) ([]*cloudprovider.InstanceType, error) {
	return p.types, nil
}

func readCatalog(path string) ([]*cloudprovider.InstanceType, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	catalog := catalogDocument{}
	if err := json.Unmarshal(text, &catalog); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if catalog.Kind != "Catalog" {
		return nil, fmt.Errorf("%s: kind is %q, not Catalog", path, catalog.Kind)
	}
	// Every label of a catalog is one that the cloud knows, as those of a provider are.
	keys := sets.New[string]()
	for _, document := range catalog.Types {
		keys = keys.Union(sets.KeySet(document.Labels))
		for _, offering := range document.Offerings {
			keys = keys.Union(sets.KeySet(offering.Labels))
		}
	}
	karpenterv1.WellKnownLabels = karpenterv1.WellKnownLabels.Union(keys)
	instanceTypes := make([]*cloudprovider.InstanceType, 0, len(catalog.Types))
	for _, document := range catalog.Types {
		instanceType, err := document.instanceType(keys)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, document.Name, err)
		}
		instanceTypes = append(instanceTypes, instanceType)
	}
	return instanceTypes, nil
}

func (d *typeDocument) instanceType(keys sets.Set[string]) (*cloudprovider.InstanceType, error) {
	offerings, err := d.offerings()
	if err != nil {
		return nil, err
	}
	requirements := scheduling.NewRequirements(
		scheduling.NewRequirement(corev1.LabelInstanceTypeStable, corev1.NodeSelectorOpIn, d.Name),
	)
	requirements.Add(scheduling.NewLabelRequirements(d.Labels).Values()...)
	ofOfferings := map[string]sets.Set[string]{}
	for _, offering := range offerings {
		for key, requirement := range offering.Requirements {
			ofOfferings[key] = ofOfferings[key].Union(sets.New(requirement.Values()...))
		}
	}
	for key, values := range ofOfferings {
		requirements.Add(scheduling.NewRequirement(key, corev1.NodeSelectorOpIn, sets.List(values)...))
	}
	// What a type does not have must be said, or a selector on it would be taken to be met.
	for key := range keys {
		if !requirements.Has(key) {
			requirements.Add(scheduling.NewRequirement(key, corev1.NodeSelectorOpDoesNotExist))
		}
	}
	return &cloudprovider.InstanceType{
		Name:         d.Name,
		Requirements: requirements,
		Offerings:    offerings,
		Capacity:     d.Capacity,
		Overhead:     &cloudprovider.InstanceTypeOverhead{KubeReserved: d.Overhead},
	}, nil
}

// A catalog has an offering for each operating system; Karpenter's clouds have one with several systems, so
// that offerings which differ in nothing else are one here, too.
func (d *typeDocument) offerings() (cloudprovider.Offerings, error) {
	type key struct{ zone, capacityType, price, labels string }
	merged := map[key]*cloudprovider.Offering{}
	offerings := cloudprovider.Offerings{}
	for _, document := range d.Offerings {
		price, err := strconv.ParseFloat(document.PricePerHour, 64)
		if err != nil {
			return nil, err
		}
		labels := maps.Clone(document.Labels)
		system, hasSystem := labels[corev1.LabelOSStable]
		delete(labels, corev1.LabelOSStable)
		names := slices.Sorted(maps.Keys(labels))
		at := key{document.Zone, document.CapacityType, document.PricePerHour, ""}
		for _, name := range names {
			at.labels += name + "=" + labels[name] + ","
		}
		available := document.Available == nil || *document.Available
		if offering, ok := merged[at]; ok && hasSystem && offering.Available == available {
			offering.Requirements[corev1.LabelOSStable].Insert(system)
			continue
		}
		offering := &cloudprovider.Offering{
			Price:        price,
			Available:    available,
			Requirements: scheduling.NewLabelRequirements(labels),
		}
		offering.Requirements.Add(
			scheduling.NewRequirement(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, document.Zone),
			scheduling.NewRequirement(karpenterv1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, document.CapacityType),
		)
		if hasSystem {
			offering.Requirements.Add(scheduling.NewRequirement(corev1.LabelOSStable, corev1.NodeSelectorOpIn, system))
		}
		if document.Remaining != nil {
			offering.ReservationCapacity = *document.Remaining
		}
		merged[at] = offering
		offerings = append(offerings, offering)
	}
	return offerings, nil
}
