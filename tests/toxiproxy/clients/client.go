// client URL LIMIT CONNECT_LIMIT: one GET for each line of standard input, and a line for each.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"
)

func seconds(text string) time.Duration {
	number, _ := strconv.ParseFloat(text, 64)
	return time.Duration(number * float64(time.Second))
}

func call(client *http.Client, url string) string {
	reply, err := client.Get(url)
	if err == nil {
		var body []byte
		body, err = io.ReadAll(reply.Body)
		reply.Body.Close()
		if err == nil && len(body) >= 2000 {
			return "good answer"
		}
		if err == nil {
			return "silent: a cut answer taken as good"
		}
	}
	var timeout net.Error
	var operation *net.OpError
	var name *net.DNSError
	switch {
	case errors.As(err, &name):
		return fmt.Sprintf("error DNSError (%s)", name.Err)
	case errors.As(err, &operation) && operation.Op == "dial" && operation.Timeout():
		return "error dial timeout"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "error timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "error connection refused"
	case errors.Is(err, syscall.ECONNRESET):
		return "error connection reset"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "error unexpected EOF"
	case errors.Is(err, io.EOF):
		return "error EOF"
	}
	return "error " + err.Error()
}

func main() {
	dialer := &net.Dialer{Timeout: seconds(os.Args[3])}
	client := &http.Client{Timeout: seconds(os.Args[2]), Transport: &http.Transport{DialContext: dialer.DialContext}}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fmt.Println(call(client, os.Args[1]))
	}
}
