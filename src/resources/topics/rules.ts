import type {Knex} from 'knex';
import {storeTime} from '../../kit/time.ts';
import {priorities} from '../../mail/message.ts';
import {Type} from '../../mail/type.ts';
import {field, optionalOrNull} from '../fields.ts';
import {alreadyExists, longOperation, notFound, operation} from '../operation.ts';
import {checkRoom} from '../workspaces/limits.ts';
import {
	countOptOuts,
	deleteTopic,
	findTopic,
	insertTopic,
	listTopics,
	lookUpTopic,
	purgeOptOuts,
	type Topic,
	type TopicChanges,
	updateStoredTopic,
} from './store.ts';

const fields = {
	code: field(Type.String({format: 'topic-code'}), {
		description: '1 to 64 letters, digits, hyphens and underscores. Unique within the workspace.',
	}),
	name: field(Type.String({format: 'label'}), {
		description: '1 to 200 characters. Recipients see it on the unsubscribe page.',
	}),
};
/** The optional fields of a topic. */
export const topicFields = {
	public: field(Type.Optional(Type.Boolean()), {
		description: 'Whether the preference page shows it to recipients.',
	}),
	required: field(Type.Optional(Type.Boolean()), {
		description:
			'Whether its mail is required, such as receipts. Its unsubscribe page offers to stop everything else.',
	}),
	description: field(optionalOrNull(Type.String({format: 'description'})), {
		description: 'The purpose of its mail, in 1 to 500 characters. Recipients see it.',
	}),
	priority: field(optionalOrNull(Type.Enum([...priorities])), {
		description: 'The priority of its messages, unless the send specifies one.',
	}),
};
const examples = [{code: 'newsletter', name: 'Monthly newsletter'}];
const manages = {scope: 'unsubscribe_groups:manage', role: 'operator'} as const;

/**
 * Creates a topic, which the API calls an unsubscribe group (`usg`). Opt-outs from an earlier topic with the same code
 * apply to it.
 */
export const createTopic = operation({
	...manages,
	name: 'topic create',
	summary: 'Create a topic',
	input: Type.Object({...fields, ...topicFields}, {additionalProperties: false, examples}),
	async run({trx, tools, workspaceId}, {code, ...options}): Promise<Topic> {
		await checkRoom(trx, tools, workspaceId, 'topics');
		if (options.public) {
			await checkRoom(trx, tools, workspaceId, 'public_topics');
		}
		const created_at = storeTime(tools.clock.now());
		const topic = {
			id: tools.newId('usg'),
			workspace_id: workspaceId,
			code,
			name: options.name,
			created_at,
			priority: null,
			public_at: null,
			required_at: null,
			description: null,
			...toChanges(options, undefined, created_at),
		};
		return (await insertTopic(trx, topic)) ? topic : alreadyExists('topic', 'code', code);
	},
	audit: 'topic.created',
	entry: ({id, code}, {name: _, ...options}) => ({target: id, detail: {...options, code}}),
});

/** Changes the given fields of a topic. Its opt-outs are unaffected. */
export const updateTopic = operation({
	role: 'operator',
	name: 'topic update',
	summary: 'Change a topic; the value none clears a setting',
	without: {api: 'programs create and remove topics; people edit their texts'},
	input: Type.Object({code: fields.code, name: Type.Optional(fields.name), ...topicFields}),
	async run({trx, tools, workspaceId}, {code, ...input}): Promise<Topic> {
		const topic = (await findTopic(trx, workspaceId, code)) ?? notFound('topic', code);
		if (input.public && topic.public_at === null) {
			await checkRoom(trx, tools, workspaceId, 'public_topics');
		}
		const changes = toChanges(input, topic, storeTime(tools.clock.now()));
		await updateStoredTopic(trx, topic.id, changes);
		return {...topic, ...changes};
	},
	audit: 'topic.updated',
	entry: ({id}, input) => ({target: id, detail: input}),
});

type TopicInput = Partial<Pick<Topic, 'name' | 'description' | 'priority'>> & {
	readonly public?: boolean;
	readonly required?: boolean;
};

/** Returns the columns to write. A flag that is already set keeps the time when it was set. */
function toChanges(input: TopicInput, before: Topic | undefined, now: string): TopicChanges {
	const {public: isPublic, required, ...texts} = input;
	return {
		...texts,
		...(isPublic !== undefined && {public_at: isPublic ? (before?.public_at ?? now) : null}),
		...(required !== undefined && {required_at: required ? (before?.required_at ?? now) : null}),
	};
}

/** Returns the values of the input that would create a topic. */
export function toValues({code, name, description, priority, public_at, required_at}: Topic) {
	return {code, name, description, priority, public: public_at !== null, required: required_at !== null};
}

/** Removes a topic. Its opt-outs remain, because they are stored by code. */
export const removeTopic = operation({
	...manages,
	name: 'topic remove',
	summary: 'Remove a topic; its opt-outs apply again if the code is reused',
	input: Type.Union([Type.Object({id: Type.String()}), Type.Object({code: Type.String()})]),
	run: async ({trx, workspaceId}, by): Promise<Topic> =>
		(await deleteTopic(trx, workspaceId, by)) ?? notFound('topic', 'id' in by ? by.id : by.code),
	audit: 'topic.removed',
	entry: ({id, code}) => ({target: id, detail: {code}}),
});

const optOutsAtOnce = 1000;

/** Deletes the opt-outs from a code, whether or not the topic exists, and returns their number. */
export const purgeTopic = longOperation({
	role: 'operator',
	fresh: true,
	name: 'topic purge',
	summary: 'Delete all opt-outs of a topic code',
	without: {api: 'no program may resume sending to people who opted out', apply: 'a file has no people'},
	input: Type.Object({code: fields.code}),
	async work({writer, workspaceId}, {code}, begin): Promise<number> {
		const record = begin(code);
		let deleted = 0;
		for (let part = optOutsAtOnce; part === optOutsAtOnce; deleted += part) {
			part = await writer.transaction(async trx => {
				const purged = await purgeOptOuts(trx, workspaceId, code, optOutsAtOnce);
				await record(trx, {forgotten: deleted + purged});
				return purged;
			});
		}
		return deleted;
	},
	audit: 'topic.purged',
});

/** A topic and its number of opt-outs. `topic` is `null` if it was removed, because opt-outs outlive topics. */
export type CountedTopic = {readonly code: string; readonly topic: Topic | null; readonly optedOut: number};

/** Lists the topics, newest first, then the codes of removed topics that have opt-outs. */
export async function countedTopics(reader: Knex, workspaceId: string, limit: number): Promise<CountedTopic[]> {
	const optOuts = await countOptOuts(reader, workspaceId);
	const topics = await listTopics(reader, {workspaceId, after: null, limit});
	const known = new Set(topics.map(({code}) => code));
	const removed = [...optOuts].filter(([code]) => !known.has(code)).sort(([a], [b]) => (a < b ? -1 : 1));
	return [
		...topics.map(topic => ({code: topic.code, topic, optedOut: optOuts.get(topic.code) ?? 0})),
		...removed.map(([code, optedOut]) => ({code, topic: null, optedOut})),
	];
}

/** Returns the number of opt-outs from a code. Throws `Refused` if it has neither a topic nor opt-outs. */
export async function readOptOuts(reader: Knex, workspaceId: string, code: string): Promise<number> {
	const optedOut = (await countOptOuts(reader, workspaceId)).get(code) ?? 0;
	const isKnown = optedOut > 0 || (await lookUpTopic(reader, workspaceId, code));
	const page = 'This topic does not exist, and nobody has opted out of it.';
	const wrong = `topic ${code} not found, and nobody has opted out of it`;
	return isKnown ? optedOut : notFound('topic', code, {wrong, page});
}
