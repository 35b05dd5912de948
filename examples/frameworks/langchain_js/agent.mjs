// Answers one prompt with LangChain.js's agent and two tools of the shop.

import { createAgent, tool } from "langchain";
import { z } from "zod";

const SHOP = "http://127.0.0.1:9000";
const item = z.string().describe("the item's name");

async function ask(path, options) {
  const reply = await fetch(`${SHOP}${path}`, options);
  if (!reply.ok) throw new Error(`${reply.status} ${reply.statusText}`);
  return reply.text();
}

const getPrice = tool(({ item }) => ask(`/price?item=${encodeURIComponent(item)}`), {
  name: "get_price",
  description: "Get the price of an item in the shop.",
  schema: z.object({ item }),
});

const orderItem = tool(
  (order) =>
    ask("/orders", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(order),
    }),
  {
    name: "order_item",
    description: "Order an item of the shop.",
    schema: z.object({ item, count: z.number().int() }),
  },
);

const agent = createAgent({ model: "openai:gpt-5-mini", tools: [getPrice, orderItem] });
const { messages } = await agent.invoke({ messages: [{ role: "user", content: process.argv[2] }] });
console.log(messages.at(-1).text);
