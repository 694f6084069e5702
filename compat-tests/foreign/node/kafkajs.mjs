// kafkajs, as wide as its documentation: producer, groups, transactions, admin.

import kafkajs from 'kafkajs'
import { assert, broker, run, unique, until } from './checks.mjs'

const { AssignerProtocol, CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = kafkajs
const kafka = new Kafka({ clientId: 'program', brokers: [broker], logLevel: logLevel.NOTHING })
const admin = kafka.admin()
await admin.connect()

async function newTopic (numPartitions = 1, configEntries = []) {
  const topic = unique('kafkajs')
  await admin.createTopics({ waitForLeaders: true, topics: [{ topic, numPartitions, configEntries }] })
  return topic
}

async function withProducer (settings, use) {
  const producer = kafka.producer(settings)
  await producer.connect()
  try {
    return await use(producer)
  } finally {
    await producer.disconnect()
  }
}

async function write (topic, messages, settings = {}) {
  return await withProducer({}, producer => producer.send({ topic, messages, ...settings }))
}

/** The first messages of topics, read by a group, each of them once though a rebalance may bring it again. */
async function read (topics, count, settings = {}) {
  const consumer = kafka.consumer({ groupId: unique('group'), heartbeatInterval: 200, ...settings })
  const found = new Map()
  await consumer.connect()
  try {
    await consumer.subscribe({ topics, fromBeginning: true })
    await consumer.run({
      eachMessage: async ({ topic, partition, message }) => {
        found.set(`${topic} ${partition} ${message.offset}`, { topic, partition, ...message })
      }
    })
    await until(() => found.size >= count)
  } finally {
    await consumer.disconnect()
  }
  return [...found.values()]
}

const texts = messages => messages.map(message => message.value.toString())

await run('kafkajs', {
  'records with keys, headers and timestamps come back': async () => {
    const topic = await newTopic()
    const headers = { trace: 'one', many: ['a', 'b'] }
    const [answer] = await write(topic, [{ key: 'k', value: 'v', headers, timestamp: '1700000000000' }, { value: null, key: 'gone' }])
    assert.deepEqual([answer.errorCode, answer.partition, answer.baseOffset], [0, 0, '0'])
    const [first, tombstone] = await read([topic], 2)
    assert.deepEqual([first.key.toString(), first.value.toString(), first.timestamp], ['k', 'v', '1700000000000'])
    assert.equal(first.headers.trace.toString(), 'one')
    assert.deepEqual(first.headers.many.map(String), ['a', 'b'])
    assert.equal(tombstone.value, null)
  },
  'gzip and every kind of acknowledgement': async () => {
    const topic = await newTopic()
    for (const acks of [-1, 0, 1]) {
      await write(topic, [{ value: 'x'.repeat(5000) }], { acks, compression: CompressionTypes.GZIP })
    }
    assert.equal((await read([topic], 3)).length, 3)
  },
  'batches for several topics in one call': async () => {
    const topics = [await newTopic(), await newTopic(2)]
    await withProducer({}, producer => producer.sendBatch({
      topicMessages: topics.map(topic => ({ topic, messages: [{ value: topic }, { value: topic }] }))
    }))
    assert.deepEqual(texts(await read(topics, 4)).sort(), [...topics, ...topics].sort())
  },
  'an idempotent producer keeps its order': async () => {
    const topic = await newTopic()
    await withProducer({ idempotent: true, maxInFlightRequests: 1 }, async producer => {
      for (let number = 0; number < 50; number++) await producer.send({ topic, messages: [{ value: String(number) }] })
    })
    assert.deepEqual(texts(await read([topic], 50)), Array.from({ length: 50 }, (_, number) => String(number)))
  },
  'a record that is too large is refused': async () => {
    const topic = await newTopic(1, [{ name: 'max.message.bytes', value: '1000' }])
    await assert.rejects(write(topic, [{ value: 'x'.repeat(5000) }]), { type: 'MESSAGE_TOO_LARGE' })
  },
  'two members share partitions, and one that leaves hands them over': async () => {
    const topic = await newTopic(4)
    const groupId = unique('group')
    const owned = {}
    // A member of kafkajs beats after a fetch only, so one that waits longer than a rebalance may take is expelled by it.
    const patience = { heartbeatInterval: 100, maxWaitTimeInMs: 200, rebalanceTimeout: 3000 }
    const member = async name => {
      const consumer = kafka.consumer({ groupId, ...patience })
      consumer.on(consumer.events.GROUP_JOIN, event => { owned[name] = event.payload.memberAssignment[topic] ?? [] })
      await consumer.connect()
      await consumer.subscribe({ topics: [topic] })
      await consumer.run({ eachMessage: async () => {} })
      return consumer
    }
    const first = await member('first')
    await until(() => owned.first?.length === 4)
    const second = await member('second')
    await until(() => owned.first.length === 2 && owned.second?.length === 2)
    assert.deepEqual([...owned.first, ...owned.second].sort(), [0, 1, 2, 3])
    await second.disconnect()
    await until(() => owned.first.length === 4)
    await first.disconnect()
  },
  'offsets are committed by hand and carried on from': async () => {
    const topic = await newTopic()
    const groupId = unique('group')
    await write(topic, Array.from({ length: 10 }, (_, number) => ({ value: String(number) })))
    const consumer = kafka.consumer({ groupId })
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    let seen = 0
    await consumer.run({ autoCommit: false, eachMessage: async () => { seen++ } })
    await until(() => seen === 10)
    await consumer.commitOffsets([{ topic, partition: 0, offset: '6', metadata: 'noted' }])
    await consumer.disconnect()
    const [{ partitions: [committed] }] = await admin.fetchOffsets({ groupId, topics: [topic] })
    assert.deepEqual([committed.offset, committed.metadata], ['6', 'noted'])
    assert.deepEqual(texts(await read([topic], 4, { groupId })), ['6', '7', '8', '9'])
  },
  'seeking, pausing and resuming': async () => {
    const topic = await newTopic()
    await write(topic, Array.from({ length: 5 }, (_, number) => ({ value: String(number) })))
    const consumer = kafka.consumer({ groupId: unique('group'), maxWaitTimeInMs: 100 })
    const found = []
    await consumer.connect()
    await consumer.subscribe({ topics: [topic] })
    await consumer.run({ eachMessage: async ({ message }) => { found.push(message.value.toString()) } })
    consumer.seek({ topic, partition: 0, offset: '3' })
    await until(() => found.length === 2)
    assert.deepEqual(found, ['3', '4'])
    consumer.pause([{ topic }])
    await write(topic, [{ value: 'late' }])
    await new Promise(resolve => setTimeout(resolve, 500))
    assert.equal(found.length, 2)
    consumer.resume([{ topic }])
    await until(() => found.includes('late'))
    await consumer.disconnect()
  },
  'a pattern subscribes to topics': async () => {
    const topic = await newTopic()
    await write(topic, [{ value: 'by pattern' }])
    assert.deepEqual(texts(await read([new RegExp(`^${topic}$`)], 1)), ['by pattern'])
  },
  'batches are handed over whole': async () => {
    const topic = await newTopic()
    await write(topic, Array.from({ length: 20 }, (_, number) => ({ value: String(number) })))
    const consumer = kafka.consumer({ groupId: unique('group') })
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    let batch
    await consumer.run({ eachBatch: async given => { batch ??= given.batch } })
    await until(() => batch)
    assert.deepEqual([batch.messages.length, batch.highWatermark, batch.offsetLag()], [20, '20', '0'])
    await consumer.disconnect()
  },
  'transactions commit, abort and move offsets': async () => {
    const topic = await newTopic()
    const consumerGroupId = unique('group')
    await withProducer({ transactionalId: unique('txn'), idempotent: true, maxInFlightRequests: 1 }, async producer => {
      const aborted = await producer.transaction()
      await aborted.send({ topic, messages: [{ value: 'aborted' }] })
      await aborted.abort()
      const committed = await producer.transaction()
      await committed.send({ topic, messages: [{ value: 'committed' }] })
      await committed.sendOffsets({ consumerGroupId, topics: [{ topic, partitions: [{ partition: 0, offset: '1' }] }] })
      await committed.commit()
    })
    assert.deepEqual(texts(await read([topic], 1, { readUncommitted: false })), ['committed'])
    const [{ partitions: [moved] }] = await admin.fetchOffsets({ groupId: consumerGroupId, topics: [topic] })
    assert.equal(moved.offset, '1')
  },
  'topics: created, described, extended, deleted': async () => {
    const topic = await newTopic(2)
    assert.equal(await admin.createTopics({ topics: [{ topic }] }), false)
    assert.ok((await admin.listTopics()).includes(topic))
    await admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] })
    await until(async () => (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length === 3)
    await admin.deleteTopics({ topics: [topic] })
    await until(async () => !(await admin.listTopics()).includes(topic))
  },
  'offsets of topics, by time too, and records deleted': async () => {
    const topic = await newTopic()
    await write(topic, [1, 2, 3].map(number => ({ value: 'x', timestamp: String(1_700_000_000_000 + number) })))
    const [ends] = await admin.fetchTopicOffsets(topic)
    assert.deepEqual([ends.low, ends.high], ['0', '3'])
    const [byTime] = await admin.fetchTopicOffsetsByTimestamp(topic, 1_700_000_000_002)
    assert.equal(byTime.offset, '1')
    await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '2' }] })
    assert.equal((await admin.fetchTopicOffsets(topic))[0].low, '2')
  },
  'configs: described and altered': async () => {
    const topic = await newTopic()
    const resource = { type: ConfigResourceTypes.TOPIC, name: topic }
    await admin.alterConfigs({ resources: [{ ...resource, configEntries: [{ name: 'retention.ms', value: '4242' }] }] })
    const described = await admin.describeConfigs({ resources: [{ ...resource, configNames: ['retention.ms'] }] })
    assert.equal(described.resources[0].configEntries[0].configValue, '4242')
  },
  'groups: listed, described, reset, deleted': async () => {
    const topic = await newTopic()
    const groupId = unique('group')
    await write(topic, [{ value: 'a' }, { value: 'b' }])
    await read([topic], 2, { groupId })
    assert.ok((await admin.listGroups()).groups.some(group => group.groupId === groupId))
    const { groups: [described] } = await admin.describeGroups([groupId])
    assert.deepEqual([described.state, described.protocolType], ['Empty', 'consumer'])
    await admin.setOffsets({ groupId, topic, partitions: [{ partition: 0, offset: '1' }] })
    assert.deepEqual(texts(await read([topic], 1, { groupId })), ['b'])
    await admin.deleteGroups([groupId])
    assert.ok(!(await admin.listGroups()).groups.some(group => group.groupId === groupId))
  },
  'the cluster is described': async () => {
    const { brokers, controller, clusterId } = await admin.describeCluster()
    assert.equal(`${brokers[0].host}:${brokers[0].port}`, broker)
    assert.equal(controller, brokers[0].nodeId)
    assert.equal(clusterId.length, 22)
  },
  'assignments are read from a description': async () => {
    const topic = await newTopic()
    const groupId = unique('group')
    const consumer = kafka.consumer({ groupId })
    const joined = new Promise(resolve => consumer.on(consumer.events.GROUP_JOIN, resolve))
    await consumer.connect()
    await consumer.subscribe({ topics: [topic] })
    await consumer.run({ eachMessage: async () => {} })
    await joined
    const { groups: [{ members: [member] }] } = await admin.describeGroups([groupId])
    const { assignment } = AssignerProtocol.MemberAssignment.decode(member.memberAssignment)
    assert.deepEqual(assignment, { [topic]: [0] })
    await consumer.disconnect()
  }
})
await admin.disconnect()
