import {LRUCache} from 'lru-cache';
import type {Addressee, Role} from '../inbound/addressee.ts';
import type {Clock} from '../kit/clock.ts';
import {atMost} from '../kit/collections.ts';

/** What a message uses of the allowances while it is received. */
type Share = {
	/** Returns `false` if fewer bytes are left. */
	readonly add: (bytes: number) => boolean;
	/** Undoes the use, because the message does not count after all. May be called again. */
	readonly giveBack: () => void;
};

export type MailShare = Share & {
	/**
	 * Records that tokens proved the message to be about these recipients. It then counts for them instead of the
	 * client, as long as they have allowance left.
	 */
	readonly prove: (recipients: readonly string[]) => void;
};

type Amount = {readonly mails: number; readonly bytes: number};

const windowMs = 3_600_000;
/** All clients together may send this many times the allowance of one. */
const totalFactor = 10;
/** Lower limits for the operator, who reads the messages, and for old tokens, which anyone can invent. */
const maxMails = {operator: 60, late: 20} as const;
/** Limits the damage of a leaked token. No recipient causes as many reports, even behind a mailing list. */
const perRecipient: Amount = {mails: 100, bytes: 32 * 1024 ** 2};
/** How many clients that proved a message are remembered. */
const maxProvenClients = 10_000;
const unlimited: Amount = {mails: Number.POSITIVE_INFINITY, bytes: Number.POSITIVE_INFINITY};

type AllowancesOptions = {
	/** MAILCTL_INBOUND_ALLOWANCE. */
	readonly each: Amount;
	/** Resolves when stored messages have been read, and have returned their allowance. */
	readonly untilRead: () => Promise<void>;
	readonly clock: Pick<Clock, 'monotonic'>;
};

/**
 * Limits how much mail the listener accepts: an hourly allowance per role (for each client and in total), and per
 * recipient. A client that sends faster than messages are read has to wait.
 */
export class Allowances {
	readonly #untilRead: () => Promise<void>;
	readonly #recipients: Allowance;
	/** Clients that have sent something valid before are unaffected if strangers use up their total allowance. */
	readonly #proven = new LRUCache<string, true>(atMost(maxProvenClients));
	readonly #ofProven: Allowance;
	readonly #roles: Readonly<Record<Role, Allowance>>;

	constructor({each, untilRead, clock}: AllowancesOptions) {
		this.#untilRead = untilRead;
		const total = toTotal(each);
		const perClient = (amount: Amount) => new Allowance(amount, toTotal(amount), clock);
		// Tokens are proved before the message arrives, and one provider may send thousands an hour. So only the
		// backlog of unread messages limits them.
		const perToken = () => new Allowance(total, total, clock);
		this.#recipients = new Allowance(perRecipient, unlimited, clock);
		this.#ofProven = perClient(each);
		this.#roles = {
			return_path: perToken(),
			unsubscribe: perToken(),
			reply: perToken(),
			inbound: perClient(each),
			feedback: perClient(each),
			dmarc: perClient(each),
			tlsrpt: perClient(each),
			operator: perClient({...each, mails: Math.min(each.mails, maxMails.operator)}),
			late: perClient({...each, mails: Math.min(each.mails, maxMails.late)}),
		};
	}

	/** Whether a client may send one more message of this size to an addressee. */
	async has(addressee: Addressee, client: string, bytes: number): Promise<boolean> {
		if (!this.#has(addressee, client, bytes)) {
			await this.#untilRead();
			return this.#has(addressee, client, bytes);
		}
		return true;
	}

	/** Takes one message for these addressees; its bytes are added later. Returns `null` if no message is left. */
	async take(addressees: readonly Addressee[], client: string): Promise<MailShare | null> {
		const share = this.#take(addressees, client);
		if (share === null) {
			await this.#untilRead();
			return this.#take(addressees, client);
		}
		return share;
	}

	#allowanceOf(role: Role, client: string): Allowance {
		return role === 'feedback' && this.#proven.has(client) ? this.#ofProven : this.#roles[role];
	}

	#has({role, recipient}: Addressee, client: string, bytes: number): boolean {
		return (
			this.#allowanceOf(role, client).has(client, bytes) &&
			(recipient === null || this.#recipients.has(recipient, bytes))
		);
	}

	#take(addressees: readonly Addressee[], client: string): MailShare | null {
		const claimed = new Set(addressees.flatMap(({recipient}) => recipient ?? []));
		const roles = new Set(addressees.map(({role}) => role));
		const ofRecipients = combine([...claimed].map(recipient => this.#recipients.take(recipient)));
		const ofRoles = combine([...roles].map(role => this.#allowanceOf(role, client).take(client)));
		if (ofRecipients === null || ofRoles === null) {
			ofRecipients?.giveBack();
			ofRoles?.giveBack();
			return null;
		}
		let bytes = 0;
		return {
			add(more) {
				bytes += more;
				return ofRecipients.add(more) && ofRoles.add(more);
			},
			giveBack() {
				ofRecipients.giveBack();
				ofRoles.giveBack();
			},
			prove: recipients => {
				const unclaimed = recipients.filter(recipient => !claimed.has(recipient));
				const ofUnclaimed = combine(unclaimed.map(recipient => this.#recipients.take(recipient)));
				if (ofUnclaimed?.add(bytes)) {
					this.#proven.set(client, true);
					ofRoles.giveBack();
				} else {
					ofUnclaimed?.giveBack();
				}
			},
		};
	}
}

/** Combines several shares. If one of them is `null`, all are returned and the result is `null`. */
function combine(shares: ReadonlyArray<Share | null>): Share | null {
	const combined: Share = {
		add: bytes => shares.every(share => share?.add(bytes)),
		giveBack: () => {
			for (const share of shares) {
				share?.giveBack();
			}
		},
	};
	if (shares.includes(null)) {
		combined.giveBack();
		return null;
	}
	return combined;
}

function toTotal({mails, bytes}: Amount): Amount {
	return {mails: mails * totalFactor, bytes: bytes * totalFactor};
}

/** Beyond this number, the least recently used key starts over. The limit of all keys together still applies. */
const maxKeys = 10_000;

type Used = {mails: number; bytes: number};

/** What each key, and all keys together, may use in an hour. The next hour starts with the first use after this one. */
export class Allowance {
	readonly #each: Amount;
	readonly #all: Amount;
	readonly #clock: Pick<Clock, 'monotonic'>;
	readonly #used = new LRUCache<string, Used>(atMost(maxKeys));
	#total: Used = {mails: 0, bytes: 0};
	#windowStart: number;

	constructor(each: Amount, all: Amount, clock: Pick<Clock, 'monotonic'>) {
		this.#each = each;
		this.#all = all;
		this.#clock = clock;
		this.#windowStart = clock.monotonic();
	}

	#usedBy(key: string): Used {
		if (this.#clock.monotonic() - this.#windowStart >= windowMs) {
			this.#windowStart = this.#clock.monotonic();
			this.#total = {mails: 0, bytes: 0};
			this.#used.clear();
		}
		let used = this.#used.get(key);
		if (!used) {
			used = {mails: 0, bytes: 0};
			this.#used.set(key, used);
		}
		return used;
	}

	/** Whether a key may use one more message of this size. */
	has(key: string, bytes: number): boolean {
		return fits(this.#usedBy(key), 1, bytes, this.#each) && fits(this.#total, 1, bytes, this.#all);
	}

	/** Takes one message; its bytes are added later. Takes nothing and returns `null` if no message is left. */
	take(key: string): Share | null {
		const [each, all] = [this.#each, this.#all];
		// A share that outlives its hour only changes counters that no longer matter.
		const own = this.#usedBy(key);
		const total = this.#total;
		if (!fits(own, 1, 1, each) || !fits(total, 1, 1, all)) {
			return null;
		}
		let claimed: Amount = {mails: 0, bytes: 0};
		const count = (mails: number, bytes: number) => {
			for (const used of [own, total]) {
				used.mails += mails;
				used.bytes += bytes;
			}
			claimed = {mails: claimed.mails + mails, bytes: claimed.bytes + bytes};
		};
		count(1, 0);
		return {
			add(bytes) {
				const hasRoom = fits(own, 0, bytes, each) && fits(total, 0, bytes, all);
				if (hasRoom) {
					count(0, bytes);
				}
				return hasRoom;
			},
			giveBack: () => count(-claimed.mails, -claimed.bytes),
		};
	}
}

function fits(used: Used, mails: number, bytes: number, limit: Amount): boolean {
	return used.mails + mails <= limit.mails && used.bytes + bytes <= limit.bytes;
}
