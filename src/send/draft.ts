import {createHash} from 'node:crypto';
import type {Knex} from 'knex';
import {Numeral} from '../kit/exact-json.ts';
import type {Address} from '../mail/address.ts';
import type {ApiErrorCode} from '../mail/api-error.ts';
import type {Attachment, Mode, Priority} from '../mail/message.ts';
import type {Operator} from '../mail/operator.ts';
import {findKeyUses, type KeyName, type KeyUse, keyNameText, releaseKeys, takeKeys} from '../store/idempotency-keys.ts';
import type {Vault} from '../store/sealed.ts';

/** A valid send: texts are parsed and absent fields are `null`. JSON fields are text already. */
export type Send = {
	readonly workspaceId: string;
	readonly mode: Mode;
	readonly from: Address;
	readonly to: Address;
	/** Without duplicates and without `to`. */
	readonly cc: readonly Address[];
	readonly replyTo: Address | null;
	readonly templateId: string;
	readonly data: string | null;
	readonly metadata: string | null;
	readonly tags: string | null;
	readonly topicCode: string | null;
	readonly locale: string | null;
	readonly timezone: string | null;
	readonly tracking: string | null;
	readonly extras: string | null;
	readonly attachments: readonly Attachment[];
	/** The message that this one repeats, or `null`. */
	readonly resentFrom: string | null;
	/** The dashboard user who sends it, for the audit trail. Absent for programs: their messages are the record. */
	readonly by?: Operator;
};

/** The fingerprint of a send, and a digest of its other fields (`null` if unknown). */
type Compared = {
	readonly fingerprint: string;
	readonly others: string | null;
	/** The same with former sealing keys, and as a plain digest, which older versions stored. */
	readonly former?: ReadonlyArray<Omit<Compared, 'former'>>;
};

/** An Idempotency-Key and the send that it came with. */
export type Idempotency = Compared & {readonly key: string};

/** A send that passed every check that needs no transaction. */
export type Draft = {
	readonly send: Send;
	readonly idempotency: Idempotency | null;
	/** The newest version of the template. The message keeps it after later saves. */
	readonly versionId: string;
	/** All variables, sealed for the workspace, if `send` lacks the sensitive ones; otherwise `null`. */
	readonly sealed: string | null;
	/** `null` if the message has no topic or no topic has the code. */
	readonly topicId: string | null;
	/** The send's own priority, else its topic's, else its template's. */
	readonly priority: Priority;
	/** How many messages the workspace may send in a month, or `null` for no limit. */
	readonly quota: number | null;
};

/** The result of a send. */
export type SendResult =
	| {
			readonly ok: true;
			readonly id: string;
			/** The response body, which an Idempotency-Key repeats byte for byte. */
			readonly body: string;
			/**
			 * Whether an earlier send with the same key created the message. `differs`: other fields had other values.
			 */
			readonly replayed: false | 'true' | 'differs';
	  }
	| Refused;

export type Refused = {
	readonly ok: false;
	readonly code: ApiErrorCode;
	/** The monthly quota that is used up, and when that month ends (milliseconds since the epoch). */
	readonly quota?: {readonly limit: number; readonly endsAt: number};
};

export function refused(code: ApiErrorCode): Refused {
	return {ok: false, code};
}

export function accepted(id: string): SendResult {
	return {ok: true, id, body: JSON.stringify({id, status: 'accepted'}), replayed: false};
}

/** Returns the response to another send with the same Idempotency-Key. */
function toReplay(
	{id, body}: {readonly id: string; readonly body: string},
	first: Compared,
	repeated: Compared,
): SendResult {
	const key = keyOf(first.fingerprint);
	const comparable = [repeated, ...(repeated.former ?? [])].find(({fingerprint}) => keyOf(fingerprint) === key);
	// Another node may use a key that this one does not have yet. A replay is safe then: nothing is lost or sent twice.
	if (comparable !== undefined && comparable.fingerprint !== first.fingerprint) {
		return refused('idempotency_key_reused');
	}
	const isSame = first.others === null || comparable === undefined || first.others === comparable.others;
	return {ok: true, id, body, replayed: isSame ? 'true' : 'differs'};
}

/** Returns the name of the key that made a fingerprint; empty for a plain digest. */
const keyOf = (fingerprint: string): string => fingerprint.slice(0, Math.max(0, fingerprint.indexOf('.')));

/** The fields that make two sends the same (docs/reference/interface.md, Send request). */
type Fingerprinted = {
	readonly from: string;
	readonly to: string;
	readonly templateId: string;
	readonly data?: object;
};

type Macs = Pick<Vault, 'macs'>;

/**
 * Returns an HMAC of the SHA-256 of canonical JSON: the order of names does not matter, the spelling of addresses does.
 * With a plain digest, anyone who reads the database could try all six-digit codes.
 */
export function toIdempotency(
	vault: Macs,
	key: string,
	{from, to, templateId, data = {}, ...others}: Fingerprinted,
): Idempotency {
	const definedEntries = Object.entries(others).filter(([, value]) => value !== null && value !== undefined);
	return keyed(vault, key, toDigest([from, to, templateId, data]), toDigest(Object.fromEntries(definedEntries)));
}

/** Returns the fingerprint of a send that repeats a message. No other send has the same one. */
export function resendIdempotency(vault: Macs, key: string, messageId: string): Idempotency {
	return keyed(vault, key, toDigest(['resend', messageId]), null);
}

function keyed({macs}: Macs, key: string, fingerprint: string, others: string | null): Idempotency {
	const othersMacs = others === null ? [] : macs('idempotency', others);
	const [current, ...former] = macs('idempotency', fingerprint).map((mac, n) => ({
		fingerprint: mac,
		others: othersMacs[n] ?? null,
	}));
	if (current === undefined) {
		throw new Error('No sealing key exists.');
	}
	return {key, ...current, former: [...former, {fingerprint, others}]};
}

function toDigest(value: unknown): string {
	return createHash('sha256').update(canonicalJson(value)).digest('base64url');
}

/** Returns JSON with sorted names. Numbers count as written, because `1` and `1.0` are rendered differently. */
function canonicalJson(value: unknown): string {
	if (value instanceof Numeral) {
		return String(value);
	}
	if (typeof value !== 'object' || value === null) {
		return JSON.stringify(value);
	}
	if (Array.isArray(value)) {
		return `[${value.map(canonicalJson).join(',')}]`;
	}
	const fields = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
	return `{${fields.map(([name, item]) => `${JSON.stringify(name)}:${canonicalJson(item)}`).join(',')}}`;
}

/** A send with a key, and its position in the group. */
type Keyed = {readonly index: number; readonly name: KeyName; readonly idempotency: Idempotency};

export function toKeyName({workspaceId, mode}: Send, {key}: Idempotency): KeyName {
	return {workspaceId, mode, key};
}

/** Finds the stored response to an earlier send with the same key, unless it has expired. */
export async function findReplay(
	reader: Knex,
	send: Send,
	idempotency: Idempotency,
	expiredBefore: string,
): Promise<SendResult | undefined> {
	const name = toKeyName(send, idempotency);
	const use = (await findKeyUses(reader, [name], expiredBefore)).get(keyNameText(name));
	return use && replayUse(use, idempotency);
}

/**
 * Stores the keys of sends that passed, and replays the stored response for known keys, even if the request would now
 * be rejected. This usually takes one statement: keys are looked up only for sends that would be rejected or have a
 * used key.
 */
export async function resolveKeys(
	trx: Knex.Transaction,
	drafts: readonly Draft[],
	decided: readonly SendResult[],
	{now, expiredBefore}: {readonly now: string; readonly expiredBefore: string},
): Promise<readonly SendResult[]> {
	const keyed = withKeys(drafts);
	if (keyed.length === 0) {
		return decided;
	}
	const uses = keyed.flatMap(keyedSend => toKeyUses(keyedSend, decided[keyedSend.index] as SendResult, now));
	if (new Set(uses.map(keyNameText)).size < uses.length) {
		throw new Error(
			'Two sends in one group have the same Idempotency-Key. The second one must wait for the first.',
		);
	}
	const claimedKeys = uses.length > 0 ? await takeKeys(trx, uses, expiredBefore) : new Set();
	const unclaimed = keyed.filter(({name}) => !claimedKeys.has(keyNameText(name)));
	if (unclaimed.length === 0) {
		return decided;
	}
	const existing = await findKeyUses(
		trx,
		unclaimed.map(({name}) => name),
		expiredBefore,
	);
	const resolved = [...decided];
	for (const {index, name, idempotency} of unclaimed) {
		const use = existing.get(keyNameText(name));
		if (use) {
			resolved[index] = replayUse(use, idempotency);
		} else if (decided[index]?.ok) {
			throw new Error('An Idempotency-Key existed when it was to be stored, but not when it was looked up.');
		}
	}
	return resolved;
}

function toKeyUses({name, idempotency: {fingerprint, others}}: Keyed, result: SendResult, createdAt: string): KeyUse[] {
	return result.ok ? [{...name, fingerprint, others, response: result.body, messageId: result.id, createdAt}] : [];
}

function replayUse(use: Pick<KeyUse, 'messageId' | 'response'> & Compared, repeated: Compared): SendResult {
	return toReplay({id: use.messageId, body: use.response}, use, repeated);
}

/** Removes the keys of sends that passed all checks except the last one. */
export async function releaseRefused(
	trx: Knex.Transaction,
	drafts: readonly Draft[],
	refused: ReadonlySet<number>,
): Promise<void> {
	const names = withKeys(drafts).flatMap(({index, name}) => (refused.has(index) ? [name] : []));
	if (names.length > 0) {
		await releaseKeys(trx, names);
	}
}

function withKeys(drafts: readonly Draft[]): Keyed[] {
	return drafts.flatMap(({send, idempotency}, index) =>
		idempotency === null ? [] : [{index, name: toKeyName(send, idempotency), idempotency}],
	);
}

type Running = Compared & {readonly outcome: Promise<SendResult>};

/**
 * Tracks sends with an Idempotency-Key in this process. A second one with the same key waits for the first, at most
 * `waitMs`, and repeats its response. If the first was rejected, the second is decided on its own.
 */
export function createInFlight(waitMs: number) {
	const running = new Map<string, Running>();

	async function runFirst(name: string, compared: Compared, send: () => Promise<SendResult>): Promise<SendResult> {
		const outcome = send();
		running.set(name, {...compared, outcome});
		try {
			return await outcome;
		} finally {
			running.delete(name);
		}
	}

	/** `name` is the key together with the scope in which it is unique. */
	return async (name: string, idempotency: Compared, send: () => Promise<SendResult>): Promise<SendResult> => {
		if (!running.has(name)) {
			return await runFirst(name, idempotency, send);
		}
		let timeout: NodeJS.Timeout | undefined;
		const late = new Promise<'late'>(resolve => {
			timeout = setTimeout(resolve, waitMs, 'late');
		});
		try {
			for (;;) {
				const first = running.get(name);
				if (!first) {
					return await runFirst(name, idempotency, send);
				}
				const outcome = await Promise.race([late, first.outcome.catch(() => null)]);
				if (outcome === 'late') {
					return refused('unavailable');
				}
				if (outcome?.ok) {
					return toReplay(outcome, first, idempotency);
				}
			}
		} finally {
			clearTimeout(timeout);
		}
	};
}
