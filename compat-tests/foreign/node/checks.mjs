// What the programs share: named checks, one after the other, each an outcome on a line of its own.

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'

export const broker = process.argv[2]
const wanted = process.argv.slice(3)
const LIMIT_MS = 90_000

export function unique (stem) {
  return `${stem}-${randomBytes(4).toString('hex')}`
}

/** Run the checks that were asked for, or all; each gets no arguments and fails by throwing. */
export async function run (prefix, checks) {
  for (const [name, check] of Object.entries(checks)) {
    const test = `${prefix}: ${name}`
    if (wanted.length && !wanted.includes(test)) continue
    let timer
    const limit = new Promise((_resolve, reject) => {
      timer = setTimeout(() => reject(new Error(`took longer than ${LIMIT_MS} ms`)), LIMIT_MS)
    })
    let outcome = 'passed'
    let reason = ''
    try {
      await Promise.race([check(), limit])
    } catch (error) {
      outcome = 'failed'
      reason = `${error.message ?? error} ${error.errors?.map(one => one.message).join('; ') ?? ''}`
    }
    clearTimeout(timer)
    console.log(JSON.stringify({ test, outcome, reason }))
  }
}

/** Wait until something holds; the check's own limit ends it. */
export async function until (condition) {
  while (!(await condition())) await new Promise(resolve => setTimeout(resolve, 50))
}

export { assert }
