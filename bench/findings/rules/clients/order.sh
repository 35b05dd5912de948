# Orders by curl: sh order.sh PROMPT [TRIES] [CURL'S OPTIONS]
tries=${2:-1}
shift; shift 2>/dev/null
while :; do
    tries=$((tries - 1))
    curl -sS "$@" -H 'Content-Type: application/json' -d '{"item": "tea", "count": 1}' "$SHOP_URL/orders" >/dev/null && break
    [ "$tries" -gt 0 ] || { echo "I could not place the order."; exit 1; }
done
echo "The order has been placed."
