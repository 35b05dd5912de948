// Answers one prompt with OpenAI's SDK for Node (its tool runner) and two tools of the shop.

import OpenAI from "openai";

const SHOP = "http://127.0.0.1:9000";
const item = { type: "string", description: "the item's name" };

async function ask(path, options) {
  const reply = await fetch(`${SHOP}${path}`, options);
  if (!reply.ok) throw new Error(`${reply.status} ${reply.statusText}`);
  return reply.text();
}

function tool(name, description, properties, run) {
  const parameters = { type: "object", properties, required: Object.keys(properties) };
  return { type: "function", function: { name, description, parameters, parse: JSON.parse, function: run } };
}

const tools = [
  tool("get_price", "Get the price of an item in the shop.", { item }, ({ item }) =>
    ask(`/price?item=${encodeURIComponent(item)}`),
  ),
  tool("order_item", "Order an item of the shop.", { item, count: { type: "integer" } }, (order) =>
    ask("/orders", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(order),
    }),
  ),
];

const runner = new OpenAI().chat.completions.runTools({
  model: "gpt-5-mini",
  messages: [{ role: "user", content: process.argv[2] }],
  tools,
});
console.log(await runner.finalContent());
