import type {Links} from '../compose/links/links.ts';
import type {SignedId} from '../compose/links/tokens.ts';
import type {Clock} from '../kit/clock.ts';
import {isOperatorAddress, parseDomain, unquotedLocal} from '../mail/address.ts';
import {reportLocals} from '../mail/aggregate.ts';
import {idTime} from '../mail/ids.ts';
import {precedence, type ReadingTurn} from '../mail/report.ts';

/**
 * The roles of our own addresses. `late` names a recipient so old that its row may have been removed, so its token
 * cannot be proved.
 */
export type Role =
	| 'return_path'
	| 'unsubscribe'
	| 'feedback'
	| 'dmarc'
	| 'tlsrpt'
	| 'operator'
	| 'late'
	| 'inbound'
	| 'reply';

/** Whether messages for this role go to a workspace. */
export const isForPeople = (role: Role): boolean => role === 'inbound' || role === 'reply';

export type Addressee = {
	readonly role: Role;
	/** As it is stored. */
	readonly address: string;
	/** The recipient that its token names, or `null` if no token proves it. */
	readonly recipient: string | null;
	/** The workspace that owns the address, for role `inbound`. */
	readonly workspaceId?: string;
};

/**
 * Returns when a message for these addressees is read. A single unproven one makes it a message that anybody can send.
 */
export function turnOf(addressees: readonly Addressee[]): ReadingTurn {
	const unproven = addressees.find(({recipient}) => recipient === null);
	if (unproven !== undefined) {
		return {precedence: precedence.unproven, turn: unproven.workspaceId ?? unproven.role};
	}
	return addressees.some(({role}) => isForPeople(role))
		? {precedence: precedence.expected, turn: 'reply'}
		: {precedence: precedence.proven, turn: 'token'};
}

/** The verdict on an address of RCPT. */
export type AddresseeVerdict =
	| ({readonly ok: true} & Addressee)
	| {readonly ok: false; readonly reason: 'unknown' | 'foreign'; readonly code: number; readonly text: string};

type AddresseeOptions = {
	readonly links: Pick<Links, 'readReturnPath' | 'readUnsubscribeLocal' | 'readReplyLocal'>;
	readonly domains: Pick<OurDomains, 'has'>;
	/** The domain of addresses without one, and the one at which `doctor` tests a bounce. */
	readonly returnPathDomain: string;
	readonly feedbackAddress: string;
	/** Returns the workspace that receives mail at the address. */
	readonly inboxOf: (address: string) => Promise<string | undefined>;
	/** Returns the address of a recipient as it was submitted, or `undefined` if the recipient does not exist. */
	readonly addressOf: (recipientId: string) => Promise<string | undefined>;
	/** How long tokens are accepted, in milliseconds. */
	readonly tokenLifetimeMs: () => number;
	readonly clock: Pick<Clock, 'now'>;
};

/** Local parts that accept reports from anyone, at each of our domains. */
const reportRoles = new Map<string, Role>([
	['fbl', 'feedback'],
	[reportLocals.dmarc, 'dmarc'],
	[reportLocals.tls, 'tlsrpt'],
]);

/** Accepts only signed addresses, and those of workspaces, feedback and the operator (R3.6). Relays nothing. */
export async function judgeAddressee(options: AddresseeOptions, text: string): Promise<AddresseeVerdict> {
	const {links, domains} = options;
	const {local, domain} = parseParts(text, options.returnPathDomain);
	const address = `${local}@${domain}`;
	if (address === options.feedbackAddress.toLowerCase()) {
		return {ok: true, role: 'feedback', address, recipient: null};
	}
	if (!(await domains.has(domain))) {
		return foreign;
	}
	const reportRole = reportRoles.get(local);
	if (reportRole !== undefined) {
		return {ok: true, role: reportRole, address, recipient: null};
	}
	if (isOperatorAddress(address)) {
		return {ok: true, role: 'operator', address, recipient: null};
	}
	const [role, signed] = parseSigned(links, local);
	const proof = signed === null ? 'invalid' : await checkToken(options, signed);
	if (signed !== null && proof === 'valid') {
		return {ok: true, role, address, recipient: signed.id};
	}
	const workspaceId = domain === options.returnPathDomain ? undefined : await options.inboxOf(address);
	if (workspaceId !== undefined) {
		return {ok: true, role: 'inbound', address, recipient: null, workspaceId};
	}
	// A reply to a message that was removed cannot be assigned to anyone.
	return proof === 'late' && role !== 'reply' ? {ok: true, role: 'late', address, recipient: null} : unknown;
}

function parseSigned(links: AddresseeOptions['links'], local: string): readonly [Role, SignedId | null] {
	switch (local[0]) {
		case 'u':
			return ['unsubscribe', links.readUnsubscribeLocal(local)];
		case 'r':
			return ['reply', links.readReplyLocal(local)];
		default:
			return ['return_path', links.readReturnPath(local)];
	}
}

async function checkToken(options: AddresseeOptions, signed: SignedId): Promise<'valid' | 'invalid' | 'late'> {
	const sentTo = await options.addressOf(signed.id);
	if (sentTo !== undefined) {
		return signed.verify(sentTo) ? 'valid' : 'invalid';
	}
	// `mailctl doctor` offers a bounce for a recipient that never existed.
	if (signed.verify(`postmaster@${options.returnPathDomain}`)) {
		return 'valid';
	}
	// An expired recipient was removed. A younger one never existed, or its workspace was deleted.
	return idTime(signed.id) < options.clock.now() - options.tokenLifetimeMs() ? 'late' : 'invalid';
}

/** Normalizes an address for comparison. A bare `postmaster` is that of this host (RFC 5321 §4.5.1). */
function parseParts(text: string, ownDomain: string): {local: string; domain: string} {
	const at = text.lastIndexOf('@');
	const local = unquotedLocal(at === -1 ? text : text.slice(0, at)).toLowerCase();
	const domain = at === -1 ? ownDomain : text.slice(at + 1);
	// In a lab, a host name may have a single label.
	return {local, domain: parseDomain(domain) ?? domain.toLowerCase()};
}

const unknown: AddresseeVerdict = {ok: false, reason: 'unknown', code: 550, text: '5.1.1 Address does not exist'};
const foreign: AddresseeVerdict = {ok: false, reason: 'foreign', code: 550, text: '5.7.1 Relaying denied'};

/**
 * The domains for which mail is accepted: those of the settings, and those of the store. The latter are read at first
 * use and after `forget`.
 */
export class OurDomains {
	readonly #fixed: ReadonlySet<string>;
	readonly #read: () => Promise<readonly string[]>;
	#stored: Promise<ReadonlySet<string>> | null = null;

	constructor(fixed: readonly string[], read: () => Promise<readonly string[]>) {
		this.#fixed = new Set(fixed.map(domain => domain.toLowerCase()));
		this.#read = read;
	}

	async has(domain: string): Promise<boolean> {
		if (this.#fixed.has(domain)) {
			return true;
		}
		this.#stored ??= this.#read().then(domains => new Set(domains));
		const stored = this.#stored;
		try {
			return (await stored).has(domain);
		} catch (error) {
			this.#stored = this.#stored === stored ? null : this.#stored;
			throw error;
		}
	}

	/** Must be called after domains were added or removed. */
	forget(): void {
		this.#stored = null;
	}
}

type PendingLookup<Value> = {
	readonly key: string;
	readonly resolve: (value: Value | undefined) => void;
	readonly reject: (error: unknown) => void;
};

/**
 * Looks up keys with one query at a time. Keys that arrive during a query share the next one. Returns `undefined` for a
 * key without a value.
 */
export function batchLookups<Value>(
	lookUp: (keys: readonly string[]) => Promise<ReadonlyMap<string, Value>>,
): (key: string) => Promise<Value | undefined> {
	let waiting: Array<PendingLookup<Value>> = [];
	let isQuerying = false;

	async function run(): Promise<void> {
		isQuerying = true;
		while (waiting.length > 0) {
			const batch = waiting;
			waiting = [];
			try {
				const values = await lookUp(batch.map(({key}) => key));
				for (const {key, resolve} of batch) {
					resolve(values.get(key));
				}
			} catch (error) {
				for (const {reject} of batch) {
					reject(error);
				}
			}
		}
		isQuerying = false;
	}

	return key =>
		new Promise((resolve, reject) => {
			waiting.push({key, resolve, reject});
			if (!isQuerying) {
				void run();
			}
		});
}
