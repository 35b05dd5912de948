// Orders two mugs with fetch. Arguments: the model's address, another model's, the shop's.

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

const [model, other, shop] = process.argv.slice(2);
const key = randomUUID();
const tools = ["get_price", "place_order"];

async function send(url, body, headers = {}) {
  let failure;
  for (let pause = 200; pause < 1000; pause *= 2) {
    let wait = pause;
    try {
      const reply = await fetch(url, {
        method: body ? "POST" : "GET",
        headers: { "Content-Type": "application/json", ...headers },
        body: body && JSON.stringify(body),
        signal: AbortSignal.timeout(3000),
      });
      if (reply.ok) return await reply.json();
      failure = new Error(`${reply.status} ${await reply.text()}`);
      const after = reply.headers.get("retry-after");
      if (reply.status < 500 && !after) break;
      if (after) wait = 1000 * Number(after);
    } catch (error) {
      failure = error;
    }
    await sleep(wait);
  }
  throw failure;
}

async function ask(messages) {
  let failure;
  for (const base of [model, other]) {
    try {
      const offered = tools.map((name) => ({ type: "function", function: { name, parameters: { type: "object" } } }));
      const reply = await send(`${base}/chat/completions`, { model: "m", messages, tools: offered });
      const message = reply.choices[0].message;
      for (const call of message.tool_calls ?? []) {
        call.parsed = JSON.parse(call.function.arguments);
        if (!tools.includes(call.function.name)) throw new Error(`unknown tool ${call.function.name}`);
      }
      if (message.tool_calls?.length || message.content) return message;
      failure = new Error("the model said nothing");
    } catch (error) {
      failure = error;
    }
  }
  throw failure;
}

async function main() {
  const messages = [{ role: "user", content: "Order two mugs" }];
  let order;
  for (;;) {
    let message;
    try {
      message = await ask(messages);
    } catch (error) {
      if (order) return `Your order is placed: ${JSON.stringify(order)}`;
      process.exitCode = 1;
      return `Nothing was ordered, because the model failed: ${error.message}`;
    }
    if (!message.tool_calls?.length) return message.content;
    const calls = message.tool_calls.map(({ parsed, ...call }) => call);
    messages.push({ role: "assistant", content: null, tool_calls: calls });
    for (const call of message.tool_calls) {
      const result =
        call.function.name === "get_price"
          ? await send(`${shop}/price`)
          : (order = await send(`${shop}/orders`, call.parsed, { "Idempotency-Key": key }));
      messages.push({ role: "tool", tool_call_id: call.id, content: JSON.stringify(result) });
    }
  }
}

console.log(await main());
