// Answers one prompt with Vercel's AI SDK and two tools of the shop.

import { openai } from "@ai-sdk/openai";
import { generateText, stepCountIs, tool } from "ai";
import { z } from "zod";

const SHOP = "http://127.0.0.1:9000";
const item = z.string().describe("the item's name");

async function ask(path, options) {
  const reply = await fetch(`${SHOP}${path}`, options);
  if (!reply.ok) throw new Error(`${reply.status} ${reply.statusText}`);
  return reply.text();
}

const tools = {
  get_price: tool({
    description: "Get the price of an item in the shop.",
    inputSchema: z.object({ item }),
    execute: ({ item }) => ask(`/price?item=${encodeURIComponent(item)}`),
  }),
  order_item: tool({
    description: "Order an item of the shop.",
    inputSchema: z.object({ item, count: z.number().int() }),
    execute: (order) =>
      ask("/orders", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(order),
      }),
  }),
};

const { text } = await generateText({
  model: openai("gpt-5-mini"),
  prompt: process.argv[2],
  tools,
  stopWhen: stepCountIs(6),
});
console.log(text);
