// Orders two mugs with net/http. Arguments: the model's address, another model's, the shop's.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"
)

type object = map[string]any

type message struct {
	Role      string `json:"role"`
	Content   string `json:"content"`
	ToolCalls []call `json:"tool_calls,omitempty"`
	CallID    string `json:"tool_call_id,omitempty"`
}

type call struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

var client = &http.Client{Timeout: 3 * time.Second}

// send tries three times, as late as the server asks, and returns a complete JSON reply.
func send(method, url string, body any, key string, into any) error {
	content, _ := json.Marshal(body)
	failure := errors.New("never sent")
	for try := 1; try <= 3; try++ {
		pause := time.Duration(try) * 200 * time.Millisecond
		request, err := http.NewRequest(method, url, bytes.NewReader(content))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/json")
		if key != "" {
			request.Header.Set("Idempotency-Key", key)
		}
		reply, err := client.Do(request)
		if err == nil {
			var text []byte
			text, err = io.ReadAll(reply.Body)
			reply.Body.Close()
			after, _ := strconv.Atoi(reply.Header.Get("Retry-After"))
			if err == nil && reply.StatusCode >= 300 {
				err = fmt.Errorf("%d %s", reply.StatusCode, text)
				if reply.StatusCode < 500 && after == 0 {
					return err
				}
			} else if err == nil {
				if err = json.Unmarshal(text, into); err == nil {
					return nil
				}
			}
			if after > 0 {
				pause = time.Duration(after) * time.Second
			}
		}
		failure = err
		time.Sleep(pause)
	}
	return failure
}

func ask(models []string, messages []message) (message, error) {
	tool := func(name string) object {
		return object{"type": "function", "function": object{"name": name, "parameters": object{"type": "object"}}}
	}
	failure := errors.New("no model")
	for _, model := range models {
		var reply struct{ Choices []struct{ Message message } }
		body := object{"model": "m", "messages": messages, "tools": []object{tool("get_price"), tool("place_order")}}
		if failure = send("POST", model+"/chat/completions", body, "", &reply); failure != nil {
			continue
		}
		if failure = check(reply.Choices[0].Message); failure == nil {
			return reply.Choices[0].Message, nil
		}
	}
	return message{}, failure
}

func check(answer message) error {
	for _, call := range answer.ToolCalls {
		if !json.Valid([]byte(call.Function.Arguments)) {
			return errors.New("its arguments are no JSON")
		}
		if name := call.Function.Name; name != "get_price" && name != "place_order" {
			return fmt.Errorf("unknown tool %s", name)
		}
	}
	if len(answer.ToolCalls) == 0 && answer.Content == "" {
		return errors.New("an empty answer")
	}
	return nil
}

func main() {
	models, shop := os.Args[1:3], os.Args[3]
	key := fmt.Sprintf("order-%d-%d", os.Getpid(), time.Now().UnixNano())
	messages := []message{{Role: "user", Content: "Order two mugs"}}
	order := ""
	for {
		answer, err := ask(models, messages)
		if err != nil && order == "" {
			fmt.Fprintln(os.Stderr, "Nothing was ordered:", err)
			os.Exit(1)
		} else if err != nil {
			fmt.Println("Your order is placed:", order)
			return
		}
		if len(answer.ToolCalls) == 0 {
			fmt.Println(answer.Content)
			return
		}
		answer.Role = "assistant"
		messages = append(messages, answer)
		for _, call := range answer.ToolCalls {
			var result object
			if call.Function.Name == "get_price" {
				err = send("GET", shop+"/price", nil, "", &result)
			} else {
				err = send("POST", shop+"/orders", json.RawMessage(call.Function.Arguments), key, &result)
			}
			if err != nil {
				fmt.Println("The shop gave no clear reply, so your order may or may not be placed:", err)
				return
			}
			text, _ := json.Marshal(result)
			if call.Function.Name == "place_order" {
				order = string(text)
			}
			messages = append(messages, message{Role: "tool", CallID: call.ID, Content: string(text)})
		}
	}
}
