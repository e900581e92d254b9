import {LRUCache} from 'lru-cache';
import type {Clock} from '../kit/clock.ts';
import {atMost} from '../kit/collections.ts';
import type {Addressee, Role} from './addressee.ts';

/** What a mail takes of the allowances while it comes in. */
type Share = {
	/** False if that many bytes are not left. */
	readonly add: (bytes: number) => boolean;
	/** The mail does not count after all; may be called again. */
	readonly giveBack: () => void;
};

export type MailShare = Share & {
	/**
	 * The mail proved by tokens to be about these recipients: it counts for them, no longer for the client, as long as
	 * they have something left.
	 */
	readonly prove: (recipients: readonly string[]) => void;
};

type Amount = {readonly mails: number; readonly bytes: number};

const windowMs = 3_600_000;
/** All clients together may bring as much as this number of them. */
const inAll = 10;
/** Fewer mails to people, who read them, and for old tokens, which anyone can make up. */
const maxMails = {operator: 60, late: 20} as const;
/** A token may leak. A recipient has less to report than this, also behind a mailing list. */
const ofRecipient: Amount = {mails: 100, bytes: 32 * 1024 ** 2};
/** Clients that proved a mail and are remembered. */
const maxProvenClients = 10_000;
const unlimited: Amount = {mails: Number.POSITIVE_INFINITY, bytes: Number.POSITIVE_INFINITY};

type AllowancesOptions = {
	/** MAILCTL_INBOUND_ALLOWANCE. */
	readonly each: Amount;
	/** Resolves when stored mails are read, and have given back what they took. */
	readonly untilRead: () => Promise<void>;
	readonly clock: Pick<Clock, 'monotonic'>;
};

/**
 * How much mail the listener accepts: an hour's allowance of each role, by client and in all, and of each recipient. A
 * client that brings mail faster than it is read waits for that.
 */
export class Allowances {
	readonly #untilRead: () => Promise<void>;
	readonly #recipients: Allowance;
	/** Strangers that use up what all of them may bring keep out no client that brought something before. */
	readonly #proven = new LRUCache<string, true>(atMost(maxProvenClients));
	readonly #ofProven: Allowance;
	readonly #roles: Readonly<Record<Role, Allowance>>;

	constructor({each, untilRead, clock}: AllowancesOptions) {
		this.#untilRead = untilRead;
		const all = timesAll(each);
		const ofClients = (amount: Amount) => new Allowance(amount, timesAll(amount), clock);
		// These prove themselves before they come, thousands an hour from one provider: the limit is what waits to be
		// read.
		const ofTokens = () => new Allowance(all, all, clock);
		this.#recipients = new Allowance(ofRecipient, unlimited, clock);
		this.#ofProven = ofClients(each);
		this.#roles = {
			return_path: ofTokens(),
			unsubscribe: ofTokens(),
			reply: ofTokens(),
			inbound: ofClients(each),
			feedback: ofClients(each),
			dmarc: ofClients(each),
			tlsrpt: ofClients(each),
			operator: ofClients({...each, mails: Math.min(each.mails, maxMails.operator)}),
			late: ofClients({...each, mails: Math.min(each.mails, maxMails.late)}),
		};
	}

	/** Whether a client may bring one more mail of this size for an addressee. */
	async has(addressee: Addressee, client: string, bytes: number): Promise<boolean> {
		if (!this.#has(addressee, client, bytes)) {
			await this.#untilRead();
			return this.#has(addressee, client, bytes);
		}
		return true;
	}

	/** Takes one mail for these addressees; its bytes follow. Null if no mail is left. */
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
		const named = new Set(addressees.flatMap(({recipient}) => recipient ?? []));
		const roles = new Set(addressees.map(({role}) => role));
		const ofRecipients = together([...named].map(recipient => this.#recipients.take(recipient)));
		const ofRoles = together([...roles].map(role => this.#allowanceOf(role, client).take(client)));
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
			prove: about => {
				const others = together(
					about.filter(recipient => !named.has(recipient)).map(recipient => this.#recipients.take(recipient)),
				);
				if (others?.add(bytes)) {
					this.#proven.set(client, true);
					ofRoles.giveBack();
				} else {
					others?.giveBack();
				}
			},
		};
	}
}

/** Several shares as one; null, and none of them counts, if one of them has nothing left. */
function together(shares: ReadonlyArray<Share | null>): Share | null {
	const all: Share = {
		add: bytes => shares.every(share => share?.add(bytes)),
		giveBack: () => {
			for (const share of shares) {
				share?.giveBack();
			}
		},
	};
	if (shares.includes(null)) {
		all.giveBack();
		return null;
	}
	return all;
}

function timesAll({mails, bytes}: Amount): Amount {
	return {mails: mails * inAll, bytes: bytes * inAll};
}

/**
 * Beyond this many the key that was used least recently starts over; the limit of all keys together still holds for it.
 */
const maxKeys = 10_000;

type Used = {mails: number; bytes: number};

/**
 * What each key, and all keys together, may bring in an hour, which begins with the first look after the one before is
 * over.
 */
export class Allowance {
	readonly #each: Amount;
	readonly #all: Amount;
	readonly #clock: Pick<Clock, 'monotonic'>;
	readonly #used = new LRUCache<string, Used>(atMost(maxKeys));
	#total: Used = {mails: 0, bytes: 0};
	#began: number;

	constructor(each: Amount, all: Amount, clock: Pick<Clock, 'monotonic'>) {
		this.#each = each;
		this.#all = all;
		this.#clock = clock;
		this.#began = clock.monotonic();
	}

	#usedBy(key: string): Used {
		if (this.#clock.monotonic() - this.#began >= windowMs) {
			this.#began = this.#clock.monotonic();
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

	/** Whether a key may bring one more mail of this size. */
	has(key: string, bytes: number): boolean {
		return fits(this.#usedBy(key), 1, bytes, this.#each) && fits(this.#total, 1, bytes, this.#all);
	}

	/** Takes one mail; its bytes follow. Takes nothing and returns null if no mail is left. */
	take(key: string): Share | null {
		const [each, all] = [this.#each, this.#all];
		// A share that outlives its hour changes figures that count no more.
		const own = this.#usedBy(key);
		const total = this.#total;
		if (!fits(own, 1, 1, each) || !fits(total, 1, 1, all)) {
			return null;
		}
		let taken: Amount = {mails: 0, bytes: 0};
		const count = (mails: number, bytes: number) => {
			for (const used of [own, total]) {
				used.mails += mails;
				used.bytes += bytes;
			}
			taken = {mails: taken.mails + mails, bytes: taken.bytes + bytes};
		};
		count(1, 0);
		return {
			add(bytes) {
				const isLeft = fits(own, 0, bytes, each) && fits(total, 0, bytes, all);
				if (isLeft) {
					count(0, bytes);
				}
				return isLeft;
			},
			giveBack: () => count(-taken.mails, -taken.bytes),
		};
	}
}

function fits(used: Used, mails: number, bytes: number, limit: Amount): boolean {
	return used.mails + mails <= limit.mails && used.bytes + bytes <= limit.bytes;
}
