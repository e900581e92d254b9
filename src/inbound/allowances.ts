import {LRUCache} from 'lru-cache';
import {atMost} from '../kit/at-most.ts';
import type {Clock} from '../kit/clock.ts';
import type {Addressee, Role} from './addressee.ts';

/** How much mail the listener takes. A client that brings mail faster than it is read waits for that. */
export type Allowances = {
	/** Whether a client may bring one more mail of this size for an addressee. */
	readonly has: (addressee: Addressee, client: string, bytes: number) => Promise<boolean>;
	/** Takes one mail for these addressees, whose bytes follow; null: no mail is left. */
	readonly take: (addressees: readonly Addressee[], client: string) => Promise<MailShare | null>;
};

export type MailShare = Share & {
	/** The mail proved by tokens to be about these copies: it counts for them, as long as they have something left, no longer for the client. */
	readonly prove: (recipients: readonly string[]) => void;
};

const windowMs = 3_600_000;
/** All clients together may bring as much as this number of them. */
const inAll = 10;
/** Fewer mails to people, who read them, and for old tokens, which anyone can make up. */
const mostMails = {operator: 60, late: 20} as const;
/** A token may leak. A copy has less to report than this, also behind a mailing list. */
const ofRecipient: Amount = {mails: 100, bytes: 32 * 1024 ** 2};
/** So many clients that proved a mail are remembered. */
const mostProven = 10_000;
const unlimited: Amount = {mails: Number.POSITIVE_INFINITY, bytes: Number.POSITIVE_INFINITY};

type AllowancesOptions = {
	/** MAILCTL_INBOUND_ALLOWANCE. */
	readonly each: Amount;
	/** Resolves when mails that were taken are read, and have given back what they took. */
	readonly untilRead: () => Promise<void>;
	readonly clock: Pick<Clock, 'monotonic'>;
};

/** An hour's allowance of each role, by client and in all, and of each copy. */
export function createAllowances({each, untilRead, clock}: AllowancesOptions): Allowances {
	const recipients = createAllowance({each: ofRecipient, all: unlimited, windowMs, clock});
	/** Strangers that use up what all of them may bring keep nobody away who brought something before. */
	const proven = new LRUCache<string, true>(atMost(mostProven));
	const feedback = {ofStrangers: ofClients(each), ofProven: ofClients(each)};
	const roles: Readonly<Record<Exclude<Role, 'feedback'>, Allowance>> = {
		return_path: ofTokens(),
		unsubscribe: ofTokens(),
		operator: ofClients({...each, mails: Math.min(each.mails, mostMails.operator)}),
		late: ofClients({...each, mails: Math.min(each.mails, mostMails.late)}),
	};

	function ofClients(amount: Amount): Allowance {
		return createAllowance({each: amount, all: timesAll(amount), windowMs, clock});
	}

	/** These prove themselves before they come, thousands an hour from one provider: the limit is what waits to be read. */
	function ofTokens(): Allowance {
		return createAllowance({each: timesAll(each), all: timesAll(each), windowMs, clock});
	}

	function allowanceOf(role: Role, client: string): Allowance {
		return role === 'feedback' ? feedback[proven.has(client) ? 'ofProven' : 'ofStrangers'] : roles[role];
	}

	function has({role, recipient}: Addressee, client: string, bytes: number): boolean {
		return allowanceOf(role, client).has(client, bytes) && (recipient === null || recipients.has(recipient, bytes));
	}

	/** Null where one of them has nothing left: then none of them counts. */
	function takeAll(takes: ReadonlyArray<() => Share | null>): Share | null {
		const shares = takes.map(take => take());
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

	function take(addressees: readonly Addressee[], client: string): MailShare | null {
		const named = new Set(addressees.flatMap(({recipient}) => recipient ?? []));
		const ofRecipients = takeAll([...named].map(recipient => () => recipients.take(recipient)));
		const ofRoles = takeAll(
			[...new Set(addressees.map(({role}) => role))].map(role => () => allowanceOf(role, client).take(client)),
		);
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
			prove(about) {
				const others = takeAll(
					about.filter(recipient => !named.has(recipient)).map(recipient => () => recipients.take(recipient)),
				);
				if (others?.add(bytes)) {
					proven.set(client, true);
					ofRoles.giveBack();
				} else {
					others?.giveBack();
				}
			},
		};
	}

	return {
		has: async (...mail) => has(...mail) || (await untilRead().then(() => has(...mail))),
		take: async (...mail) => take(...mail) ?? (await untilRead().then(() => take(...mail))),
	};
}

function timesAll({mails, bytes}: Amount): Amount {
	return {mails: mails * inAll, bytes: bytes * inAll};
}

export type Amount = {readonly mails: number; readonly bytes: number};

/** What each key, and all keys together, may bring in a window of time. */
type Allowance = {
	/** Whether a key may bring one more mail of this size. */
	readonly has: (key: string, bytes: number) => boolean;
	/** Takes one mail, whose bytes follow; null: no mail is left, and nothing was taken. */
	readonly take: (key: string) => Share | null;
};

/** What one mail takes while it comes in. */
export type Share = {
	/** False: so many bytes are not left. */
	readonly add: (bytes: number) => boolean;
	/** The mail does not count after all; may be called again. */
	readonly giveBack: () => void;
};

/** Beyond so many the key that was used least recently starts over; the limit of all keys together holds for it as before. */
const mostKeys = 10_000;

type Used = {mails: number; bytes: number};

/** The window begins with the first look after the one before is over. */
export function createAllowance({
	each,
	all,
	windowMs,
	clock,
}: {
	readonly each: Amount;
	readonly all: Amount;
	readonly windowMs: number;
	readonly clock: Pick<Clock, 'monotonic'>;
}): Allowance {
	let window = begin();

	function begin() {
		return {began: clock.monotonic(), all: nothing(), each: new LRUCache<string, Used>(atMost(mostKeys))};
	}

	function usedBy(key: string): Used {
		if (clock.monotonic() - window.began >= windowMs) {
			window = begin();
		}
		let used = window.each.get(key);
		if (!used) {
			used = nothing();
			window.each.set(key, used);
		}
		return used;
	}

	return {
		has: (key, bytes) => fits(usedBy(key), 1, bytes, each) && fits(window.all, 1, bytes, all),
		take(key) {
			// A share that outlives its window changes figures that nobody asks any more.
			const own = usedBy(key);
			const total = window.all;
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
		},
	};
}

function nothing(): Used {
	return {mails: 0, bytes: 0};
}

function fits(used: Used, mails: number, bytes: number, limit: Amount): boolean {
	return used.mails + mails <= limit.mails && used.bytes + bytes <= limit.bytes;
}
