# join.sh NODE CASE: a node that is ready for pods. To be tried until it works.
sed "s/NODE/$1/g; s/CASE/$2/g" cases/node.yaml | kubectl apply -f - &&
    kubectl wait --for=condition=Ready "node/$1" --timeout=1s &&
    test -z "$(kubectl get node "$1" -o jsonpath='{.spec.taints}')"
