#!/bin/bash
# Two questions to the model and two to the shop with curl, which retries. Arguments: the model's address, the shop's.
post() { curl -fsS --max-time 5 --retry 2 --retry-all-errors -H 'Content-Type: application/json' "$@"; }
messages='{"role":"user","content":"Order two mugs"}'
for step in 1 2 3; do
  reply=$(post "$1/chat/completions" -d "{\"model\":\"m\",\"messages\":[$messages]}" | tr -d '\n')
  case $reply in
    *'"get_price"'*) name=get_price result=$(curl -fsS --max-time 5 "$2/price") ;;
    *'"place_order"'*) name=place_order result=$(post "$2/orders" -d '{"item":"mug","count":2}') || exit 1 ;;
    *) sed -E 's/.*"content": *"(([^"\\]|\\.)*)".*/\1/; s/\\"/"/g' <<<"$reply"; exit 0 ;;
  esac
  text=$(tr -d '\n' <<<"$result" | sed 's/\\/\\\\/g; s/"/\\"/g')
  call="{\"id\":\"c$step\",\"type\":\"function\",\"function\":{\"name\":\"$name\",\"arguments\":\"{}\"}}"
  messages+=",{\"role\":\"assistant\",\"tool_calls\":[$call]},{\"role\":\"tool\",\"tool_call_id\":\"c$step\",\"content\":\"$text\"}"
done
