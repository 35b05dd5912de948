// Prints a model's streamed answer: node reader.mjs PROMPT [careful]
const [, , prompt, careful] = process.argv
const body = JSON.stringify({ model: 'gpt-5', stream: true, messages: [{ role: 'user', content: prompt }] })
const headers = { 'Content-Type': 'application/json', Authorization: 'Bearer made-up' }
let text = '', ended = false
try {
  const reply = await fetch(`${process.env.OPENAI_BASE_URL}/chat/completions`, { method: 'POST', headers, body })
  const decoder = new TextDecoder()
  let rest = ''
  for await (const bytes of reply.body) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split('\n')
    rest = lines.pop()
    for (const line of lines.filter(line => line.startsWith('data: {'))) {
      const choice = JSON.parse(line.slice(6)).choices?.[0]
      text += choice?.delta?.content ?? ''
      ended ||= Boolean(choice?.finish_reason)
    }
  }
} catch (error) {
  if (careful) throw error
}
if (careful && !ended) throw new Error('the answer broke off')
console.log(text)
