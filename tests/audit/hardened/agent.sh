#!/bin/bash
# Orders two mugs with curl. Arguments: the model's address, another model's, the shop's.
set -uo pipefail
models=("$1" "$2") shop=$3 key="order-$$-$(date +%s%N)" order=""
resting=$(mktemp) && trap 'rm -f "$resting"' EXIT
tools='[{"type":"function","function":{"name":"place_order","parameters":{"type":"object"}}}]'
messages='{"role":"user","content":"Order two mugs"}'
try() { # curl retries 5xx, 429 and timeouts; other refusals (22) are final
  for _ in 1 2 3; do
    curl -fsS --max-time 3 --retry 3 -H 'Content-Type: application/json' "$@" && return
    [ $? = 22 ] && return 22
  done
  return 1
}

ask() { # prints the first reply that has a known call or an answer; a model that failed is not asked again
  local reply
  for model in "${models[@]}"; do
    grep -qxF "$model" "$resting" && continue
    reply=$(curl -fsS --max-time 3 -H 'Content-Type: application/json' "$model/chat/completions" \
      -d "{\"model\":\"m\",\"tools\":$tools,\"messages\":[$messages]}") || { echo "$model" >>"$resting"; continue; }
    reply=$(tr -d '\n' <<<"$reply")
    if grep -Eq '"name": *"(get_price|place_order)"' <<<"$reply"; then
      grep -Eq '"arguments": *"\{[^}]*\}"' <<<"$reply" && printf '%s' "$reply" && return
    elif ! grep -q '"tool_calls"' <<<"$reply" && grep -Eq '"content": *"[^"]' <<<"$reply"; then
      printf '%s' "$reply" && return
    fi
  done
  return 1
}

for step in 1 2 3 4; do
  if ! reply=$(ask); then
    [ -n "$order" ] && echo "Your order is placed: $order" && exit 0
    echo "I could not order: no model answers." >&2
    exit 1
  fi
  case $reply in
    *get_price*) result=$(try "$shop/price") || { echo "The shop does not answer."; exit 1; } ;;
    *place_order*)
      result=$(try "$shop/orders" -H "Idempotency-Key: $key" -d '{"item":"mug","count":2}') ||
        { echo "Your order may or may not be placed: the shop gave no clear reply."; exit 1; }
      order=$result ;;
    *) sed -E 's/.*"content": *"(([^"\\]|\\.)*)".*/\1/; s/\\"/"/g' <<<"$reply"; exit 0 ;;
  esac
  name=$([[ $reply == *get_price* ]] && echo get_price || echo place_order)
  call="{\"id\":\"call_$step\",\"type\":\"function\",\"function\":{\"name\":\"$name\",\"arguments\":\"{}\"}}"
  text=$(tr -d '\n' <<<"$result" | sed 's/\\/\\\\/g; s/"/\\"/g')
  messages+=",{\"role\":\"assistant\",\"tool_calls\":[$call]}"
  messages+=",{\"role\":\"tool\",\"tool_call_id\":\"call_$step\",\"content\":\"$text\"}"
done
echo "I gave up after four steps."
exit 1
