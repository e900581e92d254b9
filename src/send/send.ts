import type {Knex} from 'knex';
import type {Clock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import {type Address, parseAddress} from '../mail/address.ts';
import {isTemplateId} from '../mail/ids.ts';
import {erasedAddress, extrasJson, isTopicCode, type Mode, readExtras} from '../mail/message.ts';
import {type Arrival, type QueueKey, queueKeyText} from '../mail/route.ts';
import {resolveDestination} from '../mail/simulator.ts';
import {lookUpSender, type SenderRow} from '../resources/domains/store.ts';
import {lookUpTemplate, type TemplateRow} from '../resources/templates/store.ts';
import {lookUpTopic, type TopicRow} from '../resources/topics/store.ts';
import {findWorkspace, type Workspace} from '../resources/workspaces/store.ts';
import {createRowCache} from '../store/changes.ts';
import type {GroupWrite, Writer} from '../store/engine/writer.ts';
import {keyNameText} from '../store/idempotency-keys.ts';
import {findForResend, listAttachments} from '../store/messages.ts';
import type {Vault} from '../store/sealed.ts';
import {
	createInFlight,
	type Draft,
	findReplay,
	type Idempotency,
	type Refused,
	refused,
	type Send,
	type SendResult,
	toKeyName,
} from './draft.ts';
import {withoutSensitive} from './sensitive.ts';

type LookupResult<Row> = Row | undefined | Promise<Row | undefined>;

/** Caches what sends refer to until the store's change generation grows, so that checks do not become queries. */
type Catalog = {
	readonly workspace: (id: string) => LookupResult<Workspace>;
	readonly sender: (workspaceId: string, addressKey: string) => LookupResult<SenderRow>;
	readonly template: (workspaceId: string, id: string) => LookupResult<TemplateRow>;
	readonly topic: (workspaceId: string, code: string) => LookupResult<TopicRow>;
	/** Must be called when the generation has grown. */
	readonly clear: () => void;
};

export function createCatalog(reader: Knex): Catalog {
	const workspaces = createRowCache<Workspace>();
	const senders = createRowCache<SenderRow>();
	const templates = createRowCache<TemplateRow>();
	const topics = createRowCache<TopicRow>();
	return {
		workspace: id => workspaces.get(id, () => findWorkspace(reader, id)),
		sender: (workspaceId, key) =>
			senders.get(`${workspaceId} ${key}`, () => lookUpSender(reader, workspaceId, key)),
		template: (workspaceId, id) =>
			isTemplateId(id)
				? templates.get(`${workspaceId} ${id}`, () => lookUpTemplate(reader, workspaceId, id))
				: undefined,
		topic: (workspaceId, code) =>
			// A malformed code cannot exist, so skip the query; PostgreSQL rejects some texts.
			isTopicCode(code)
				? topics.get(`${workspaceId} ${code}`, () => lookUpTopic(reader, workspaceId, code))
				: undefined,
		clear() {
			for (const cache of [workspaces, senders, templates, topics]) {
				cache.clear();
			}
		},
	};
}

/** A send of a batch with its own Idempotency-Key, if any. */
type KeyedSend = {readonly send: Send; readonly idempotency: Idempotency | null};

export type Accept = {
	/** Accepts one message. */
	readonly single: (send: Send, idempotency: Idempotency | null) => Promise<SendResult>;
	/** Accepts messages in one transaction, each decided on its own. Returns one result per send, in order. */
	readonly batch: (sends: readonly KeyedSend[]) => Promise<readonly SendResult[]>;
	readonly isPaused: (workspaceId: string) => Promise<boolean>;
};

export type AcceptOptions = {
	readonly catalog: Catalog;
	readonly reader: Knex;
	readonly writer: Writer;
	readonly clock: Clock;
	readonly vault: Pick<Vault, 'seal'>;
	/** Created by `createAcceptWrite`. */
	readonly acceptWrite: GroupWrite<readonly Draft[], readonly SendResult[]>;
	/** How long an Idempotency-Key is remembered, in milliseconds. */
	readonly keyRetention: () => number;
	/** How long a send waits for another one with the same key, in milliseconds. */
	readonly keyWait?: number;
	/**
	 * Called when one request's messages have been submitted to the writer, with their destination queues. Claims
	 * submitted from then on find them, even in the same transaction.
	 */
	readonly onWriting: (queues: Iterable<Arrival>) => void;
	/** Called after the commit of one request's messages, with their destination queues. */
	readonly onAccepted: (mode: Mode, messages: number, queues: Iterable<QueueKey>) => void;
};

const defaultKeyWait = 30_000;

/**
 * Accepts messages. This folder decides whether a send is accepted and writes it in one transaction, by the newest rows
 * of the store. It never renders or delivers. When the promise resolves with `ok`, the message is on stable storage and
 * a 202 may be sent.
 */
export function createAccept(options: AcceptOptions): Accept {
	const {catalog, vault, reader, clock, keyRetention, keyWait = defaultKeyWait} = options;
	const inFlight = createInFlight(keyWait);

	async function accept(send: Send, idempotency: Idempotency | null): Promise<SendResult> {
		return await settle(await draft({catalog, vault}, send, idempotency), send, idempotency);
	}

	async function settle(drafted: Drafted, send: Send, idempotency: Idempotency | null): Promise<SendResult> {
		if (drafted.ok) {
			const [result] = await write(options, [drafted.draft]);
			return result as SendResult;
		}
		// A key that was used before takes precedence over all checks of the send.
		const replay =
			idempotency && (await findReplay(reader, send, idempotency, storeTime(clock.now() - keyRetention())));
		return replay ?? drafted;
	}

	function runOnce(send: Send, idempotency: Idempotency, work: () => Promise<SendResult>): Promise<SendResult> {
		return inFlight(keyNameText(toKeyName(send, idempotency)), idempotency, work);
	}

	return {
		single: (send, idempotency) =>
			idempotency === null ? accept(send, null) : runOnce(send, idempotency, () => accept(send, idempotency)),
		async batch(sends) {
			const drafted: Drafted[] = [];
			// One at a time, so that what the first one looked up is cached for the next.
			for (const {send, idempotency} of sends) {
				drafted.push(await draft({catalog, vault}, send, idempotency));
			}
			if (sends.some(({idempotency}) => idempotency !== null)) {
				// Submitted one by one, in order: those with the same key wait for each other, the others share a
				// transaction.
				return await Promise.all(
					sends.map(({send, idempotency}, index) => {
						const work = () => settle(drafted[index] as Drafted, send, idempotency);
						return idempotency === null ? work() : runOnce(send, idempotency, work);
					}),
				);
			}
			const drafts = drafted.flatMap(result => (result.ok ? [result.draft] : []));
			const results = (drafts.length > 0 ? await write(options, drafts) : []).values();
			return drafted.map(result => (result.ok ? (results.next().value as SendResult) : result));
		},
		isPaused: async workspaceId => isPaused(await catalog.workspace(workspaceId)),
	};
}

/** Submits drafts to the writer, and reports their destination queues. */
async function write(
	{writer, acceptWrite, onWriting, onAccepted}: AcceptOptions,
	drafts: readonly Draft[],
): Promise<readonly SendResult[]> {
	const writing = writer.submit(acceptWrite, drafts);
	// A claim that follows shares the transaction.
	if (writer.isOrdered) {
		onWriting(toQueues(drafts));
	}
	const results = await writing;
	if (!writer.isOrdered) {
		onWriting(toQueues(drafts));
	}
	const accepted = drafts.filter((_, index) => isNew(results[index] as SendResult));
	if (accepted[0]) {
		onAccepted(accepted[0].send.mode, accepted.length, toQueues(accepted));
	}
	return results;
}

const isNew = (result: SendResult): boolean => result.ok && !result.replayed;

function toQueues(drafts: readonly Draft[]): Iterable<Arrival> {
	const queues = new Map<string, Arrival>();
	for (const {send, priority} of drafts) {
		const {workspaceId, mode, to, cc} = send;
		const {sendAt} = readExtras(send.extras);
		for (const {domain} of [to, ...cc]) {
			const queue = {destination: resolveDestination(mode, domain), workspaceId, priority};
			const key = sendAt === undefined ? queueKeyText(queue) : `${queueKeyText(queue)} ${sendAt}`;
			queues.set(key, {...queue, ...(sendAt !== undefined && {dueAt: Date.parse(sendAt)})});
		}
	}
	return queues.values();
}

type Drafted = {readonly ok: true; readonly draft: Draft} | Refused;

/** Runs the checks in order of precedence. Those that must see the newest rows follow in the transaction. */
async function draft(
	{catalog, vault}: Pick<AcceptOptions, 'catalog' | 'vault'>,
	send: Send,
	idempotency: Idempotency | null,
): Promise<Drafted> {
	const {workspaceId} = send;
	const workspace = await catalog.workspace(workspaceId);
	if (isPaused(workspace)) {
		return refused('sending_paused');
	}

	const template = await catalog.template(workspaceId, send.templateId);
	if (!template) {
		return refused('template_not_found');
	}
	if (template.version_id === null) {
		return refused('template_has_no_version');
	}

	const sender = await catalog.sender(workspaceId, send.from.key);
	if (!sender || sender.verified_at === null || sender.disabled_at !== null) {
		return refused('sender_not_available');
	}

	const quota = workspace.monthly_quota;
	const {send: sendWithTopic, topic} = await withTopic(catalog, send, [template.topic, workspace.default_topic]);
	const priority = readExtras(send.extras).priority ?? topic?.priority ?? template.priority ?? 'normal';
	const versionId = template.version_id;
	const redacted = redactSend(sendWithTopic, template, vault);
	return {ok: true, draft: {...redacted, idempotency, versionId, topicId: topic?.id ?? null, priority, quota}};
}

/** Gives a send without a topic the first default topic that exists. Removing a topic therefore loses no mail. */
async function withTopic(
	catalog: Catalog,
	send: Send,
	defaults: ReadonlyArray<string | null>,
): Promise<{readonly send: Send; readonly topic: TopicRow | undefined}> {
	const {workspaceId, topicCode} = send;
	if (topicCode !== null) {
		// The transaction checks that it exists, after the suppression list.
		return {send, topic: await catalog.topic(workspaceId, topicCode)};
	}
	for (const code of defaults) {
		const topic = code === null ? undefined : await catalog.topic(workspaceId, code);
		if (topic) {
			return {send: {...send, topicCode: topic.code}, topic};
		}
	}
	return {send, topic: undefined};
}

/** Separates a send's sensitive variables. Mail that does not leave the machine is rendered without them. */
function redactSend(send: Send, {sensitive}: TemplateRow, vault: Pick<Vault, 'seal'>): Pick<Draft, 'send' | 'sealed'> {
	const {data, workspaceId} = send;
	const redactedData = sensitive === null || data === null ? null : withoutSensitive(data, JSON.parse(sensitive));
	if (redactedData === null || data === null) {
		return {send, sealed: null};
	}
	const extras = extrasJson({...readExtras(send.extras), hidden: true});
	return {send: {...send, data: redactedData, extras}, sealed: vault.seal(workspaceId, data)};
}

/** A deleted workspace cannot send either. */
function isPaused(workspace: Workspace | undefined): workspace is undefined {
	return !workspace || workspace.paused_at !== null;
}

/**
 * Returns the content of a message as a new send of the same mode, which passes every check and uses the newest version
 * of the template. Leaves out erased recipients. Returns `undefined` if the workspace has no such message, `erased` if
 * its content was erased, and `removed` if part of it is no longer stored.
 */
export async function readResend(
	reader: Knex,
	workspaceId: string,
	id: string,
): Promise<Send | 'erased' | 'removed' | undefined> {
	const sent = await findForResend(reader, workspaceId, id);
	if (!sent || sent.erasedAt !== null || sent.to === erasedAddress) {
		return sent && 'erased';
	}
	const {hidden, emptied, sendAt: _sendAt, expiresAt: _expiresAt, ...extras} = readExtras(sent.extras);
	if (hidden || emptied) {
		return 'removed';
	}
	const {erasedAt: _, replyTo, cc, ...rest} = sent;
	const recipients: string[] = JSON.parse(cc ?? '[]');
	return {
		...rest,
		workspaceId,
		from: toAddress(sent.from),
		to: toAddress(sent.to),
		cc: recipients.filter(address => address !== erasedAddress).map(toAddress),
		replyTo: replyTo === null || replyTo === erasedAddress ? null : toAddress(replyTo),
		attachments: await listAttachments(reader, id),
		extras: extrasJson(extras),
		resentFrom: id,
	};
}

function toAddress(text: string): Address {
	const parsed = parseAddress(text, {allowsUtf8Local: true});
	if (!parsed.ok) {
		throw new Error('An accepted address cannot be parsed.');
	}
	return parsed.address;
}
