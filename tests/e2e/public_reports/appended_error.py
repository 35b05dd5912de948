"""Appends each error, also a 429, to the prompt and asks the model again at once."""

import sys

import openai

model = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="x", max_retries=0)
messages = [{"role": "user", "content": "Extract the total as JSON."}]
for _ in range(4):
    try:
        reply = model.chat.completions.create(model="m", messages=messages)
        print(reply.choices[0].message.content)
        break
    except openai.APIStatusError as error:
        messages = [*messages, {"role": "user", "content": f"It failed: {error}. Try again."}]
