// Carries out one order with Go's standard library alone: chat completions, and one tool of the shop.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"
)

const tools = `[{"type": "function", "function": {"name": "order_item", "description": "Order an item of the shop.", "parameters":
	{"type": "object", "properties": {"item": {"type": "string"}, "count": {"type": "integer"}}, "required": ["item", "count"]}}}]`

type object = map[string]any

func post(address, authorization string, body []byte) []byte {
	request, _ := http.NewRequest("POST", address, bytes.NewReader(body))
	request.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {authorization}}
	reply, err := (&http.Client{Timeout: 10 * time.Second}).Do(request)
	if err != nil {
		return []byte("error: " + err.Error())
	}
	defer reply.Body.Close()
	text, _ := io.ReadAll(reply.Body)
	return text
}

func main() {
	messages := []any{object{"role": "user", "content": os.Args[1]}}
	for turn := 0; turn < 6; turn++ {
		body, _ := json.Marshal(object{"model": "gpt-5-mini", "messages": messages, "tools": json.RawMessage(tools)})
		text := post(os.Getenv("OPENAI_BASE_URL")+"/chat/completions", "Bearer "+os.Getenv("OPENAI_API_KEY"), body)
		var reply struct {
			Choices []struct{ Message json.RawMessage }
		}
		if json.Unmarshal(text, &reply) != nil || len(reply.Choices) == 0 {
			log.Fatalf("the model failed: %s", text)
		}
		var said struct {
			Content string
			Calls   []struct {
				ID       string
				Function struct{ Arguments string }
			} `json:"tool_calls"`
		}
		json.Unmarshal(reply.Choices[0].Message, &said)
		if messages = append(messages, reply.Choices[0].Message); len(said.Calls) == 0 {
			fmt.Println(said.Content)
			return
		}
		for _, call := range said.Calls {
			result := string(post(os.Getenv("SHOP_URL")+"/orders", "", []byte(call.Function.Arguments)))
			messages = append(messages, object{"role": "tool", "tool_call_id": call.ID, "content": result})
		}
	}
}
