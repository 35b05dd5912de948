// Orders over fetch, and tries again if there is no answer: node order.mjs PROMPT [TRIES] [key]
const [, , , tries = '1', keyed] = process.argv
const key = crypto.randomUUID()
for (let left = Number(tries); left > 0; left--) {
  try {
    const headers = { 'Content-Type': 'application/json' }
    if (keyed) headers['Idempotency-Key'] = key
    const body = JSON.stringify({ item: 'tea', count: 1 })
    const reply = await fetch(`${process.env.SHOP_URL}/orders`, { method: 'POST', headers, body })
    if (!reply.ok) throw new Error(`status ${reply.status}`)
    console.log('The order has been placed.')
    break
  } catch (error) {
    if (left === 1) {
      console.log(`I could not place the order: ${error.message}`)
      process.exitCode = 1
    }
  }
}
