import type {Clock} from '../kit/clock.ts';
import type {Links} from '../links/links.ts';
import type {SignedId} from '../links/signed-id.ts';
import {isOperatorAddress, parseDomain} from '../mail/address.ts';
import {idTime} from '../mail/ids.ts';

/** Who a mail may be for. `late`: a copy so old that it may have been removed, which leaves its token unproved. */
export type Role = 'return_path' | 'unsubscribe' | 'feedback' | 'operator' | 'late';

export type Addressee = {
	readonly role: Role;
	/** As it is stored. */
	readonly address: string;
	/** The copy whose token it holds; null: nothing proves it to be about one. */
	readonly recipient: string | null;
};

export type Judged =
	| ({readonly ok: true} & Addressee)
	| {readonly ok: false; readonly reason: 'unknown' | 'foreign'; readonly code: number; readonly text: string};

/** Judges an address of RCPT; rejects where the store cannot be asked. */
export type JudgeAddressee = (address: string) => Promise<Judged>;

type AddresseeOptions = {
	readonly links: Pick<Links, 'readReturnPath' | 'readUnsubscribeLocal'>;
	readonly domains: OurDomains;
	/** Where domainless addresses are meant, and `doctor` tries a bounce. */
	readonly returnPathDomain: string;
	readonly feedbackAddress: string;
	/** The address that a copy went to, as it was given; undefined: there is no such copy. */
	readonly addressOf: (recipientId: string) => Promise<string | undefined>;
	/** How long tokens are accepted, milliseconds. */
	readonly tokenLifetimeMs: () => number;
	readonly clock: Pick<Clock, 'now'>;
};

const feedback = 'fbl';

/** Who gets mail here (R3.6): signed addresses of our copies, feedback, the operator; nobody else, and no relay. */
export function createJudgeAddressee(options: AddresseeOptions): JudgeAddressee {
	const {links, domains, clock} = options;
	const feedbackAddress = options.feedbackAddress.toLowerCase();

	return async text => {
		const {local, domain} = partsOf(text, options.returnPathDomain);
		const address = `${local}@${domain}`;
		if (address === feedbackAddress) {
			return {ok: true, role: 'feedback', address, recipient: null};
		}
		if (!(await domains.has(domain))) {
			return foreign;
		}
		if (local === feedback) {
			return {ok: true, role: 'feedback', address, recipient: null};
		}
		if (isOperatorAddress(address)) {
			return {ok: true, role: 'operator', address, recipient: null};
		}
		const role = local.startsWith('u') ? 'unsubscribe' : 'return_path';
		const signed = role === 'unsubscribe' ? links.readUnsubscribeLocal(local) : links.readReturnPath(local);
		const proof = signed === null ? 'wrong' : await prove(signed);
		if (signed === null || proof === 'wrong') {
			return unknown;
		}
		return proof === 'right'
			? {ok: true, role, address, recipient: signed.id}
			: {ok: true, role: 'late', address, recipient: null};
	};

	async function prove(signed: SignedId): Promise<'right' | 'wrong' | 'late'> {
		const sentTo = await options.addressOf(signed.id);
		if (sentTo !== undefined) {
			return signed.verify(sentTo) ? 'right' : 'wrong';
		}
		// `mailctl doctor` offers a bounce for a copy that never was.
		if (signed.verify(`postmaster@${options.returnPathDomain}`)) {
			return 'right';
		}
		// Gone since its time is over. A younger copy that is not there never was, or its workspace is deleted.
		return idTime(signed.id) < clock.now() - options.tokenLifetimeMs() ? 'late' : 'wrong';
	}
}

/** In comparison form; `postmaster` alone is that of this host (RFC 5321 §4.5.1). */
function partsOf(text: string, ownDomain: string): {local: string; domain: string} {
	const at = text.lastIndexOf('@');
	const local = (at === -1 ? text : text.slice(0, at)).toLowerCase();
	const domain = at === -1 ? ownDomain : text.slice(at + 1);
	// A lab's host may have one label only.
	return {local, domain: parseDomain(domain) ?? domain.toLowerCase()};
}

const unknown: Judged = {ok: false, reason: 'unknown', code: 550, text: '5.1.1 No such address here'};
const foreign: Judged = {ok: false, reason: 'foreign', code: 550, text: '5.7.1 No mail is relayed here'};

/** The domains at which mail is taken. */
type OurDomains = {
	readonly has: (domain: string) => Promise<boolean>;
	/** Domains were added or removed. */
	readonly forget: () => void;
};

/**
 * @param fixed those of the settings
 * @param read those of the store; asked when they are needed first, and again after `forget`
 */
export function createOurDomains(fixed: readonly string[], read: () => Promise<readonly string[]>): OurDomains {
	const always = new Set(fixed.map(domain => domain.toLowerCase()));
	let known: Promise<ReadonlySet<string>> | null = null;
	return {
		async has(domain) {
			if (always.has(domain)) {
				return true;
			}
			known ??= read().then(domains => new Set(domains));
			const asked = known;
			try {
				return (await asked).has(domain);
			} catch (error) {
				known = known === asked ? null : known;
				throw error;
			}
		},
		forget() {
			known = null;
		},
	};
}

/** Asks for one; undefined: there is none. */
type Ask<Value> = (key: string) => Promise<Value | undefined>;

type Asked<Value> = {
	readonly key: string;
	readonly resolve: (value: Value | undefined) => void;
	readonly reject: (error: unknown) => void;
};

/** One query at a time: whoever asks meanwhile shares the next one. */
export function askTogether<Value>(
	askAll: (keys: readonly string[]) => Promise<ReadonlyMap<string, Value>>,
): Ask<Value> {
	let waiting: Array<Asked<Value>> = [];
	let asking = false;

	async function run(): Promise<void> {
		asking = true;
		while (waiting.length > 0) {
			const all = waiting;
			waiting = [];
			try {
				const values = await askAll(all.map(({key}) => key));
				for (const {key, resolve} of all) {
					resolve(values.get(key));
				}
			} catch (error) {
				for (const {reject} of all) {
					reject(error);
				}
			}
		}
		asking = false;
	}

	return key =>
		new Promise((resolve, reject) => {
			waiting.push({key, resolve, reject});
			if (!asking) {
				void run();
			}
		});
}
