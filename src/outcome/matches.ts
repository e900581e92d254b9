import type {Knex} from 'knex';
import {parseAddress} from '../mail/address.ts';
import {idFloor, idTime} from '../mail/ids.ts';
import type {CameIn, Candidate, Reading, Report, ReportAction, ReportKind, Via} from '../mail/report.ts';
import {findLastMailed, findReportedRecipients} from '../store/reports.ts';
import type {ReceivedMail} from './received.ts';

/** A mail that came in, was read, and is to be recorded. */
export type ReadMail = {
	readonly cameIn: CameIn;
	/** Octets. */
	readonly size: number;
	readonly reading: Reading;
	/** Best first. */
	readonly candidates: readonly Candidate[];
	/** The mail as workspaces get it; absent: it is for none. */
	readonly received?: readonly ReceivedMail[];
	/** The signer of a feedback report without a token, if the operator trusts it (R3.19); null otherwise. */
	readonly reporter: string | null;
	/** Now, in the store's form. */
	readonly at: string;
};

/** A recipient of ours that a mail is proven to be about, and its report (undefined: unreadable). */
export type Match = {
	readonly item: ReadMail;
	readonly recipient: Awaited<ReturnType<typeof findReportedRecipients>>[number];
	readonly via: Via;
	readonly report: Report | undefined;
};

/** The known recipients, by their ids and by those of their messages. */
export type Known = {
	readonly recipients: ReadonlyMap<string, Match['recipient']>;
	readonly messages: ReadonlyMap<string, ReadonlyArray<Match['recipient']>>;
};

/** An envelope may have several recipients; every other clue identifies the first with a valid token. */
export const envelopeVias: ReadonlySet<Via> = new Set(['unsubscribe_mail', 'return_path']);

/**
 * The recipients that a mail is proven to be about: those of the first clue with a valid token that has not expired.
 */
export function matchesOf(item: ReadMail, known: Known, acceptMs: number): Match[] {
	const proven: Candidate[] = [];
	for (const candidate of item.candidates) {
		const [first] = proven;
		if (first && !(candidate.via === first.via && envelopeVias.has(candidate.via))) {
			break;
		}
		if (isYoung(candidate, item.cameIn, acceptMs) && isProven(candidate, known)) {
			proven.push(candidate);
		}
	}
	return proven.flatMap(candidate => matchesBy(candidate, item, known));
}

/** Whether a token is within the time for which it counts (R3.2). */
export function isYoung({id}: Pick<Candidate, 'id'>, {receivedAt}: CameIn, acceptMs: number): boolean {
	return Date.parse(receivedAt) - idTime(id) <= acceptMs;
}

function isProven({id, verify}: Candidate, {recipients, messages}: Known): boolean {
	const recipient = recipients.get(id);
	return recipient ? verify(recipient.address) : messages.has(id) && verify('');
}

function matchesBy({id, via}: Candidate, item: ReadMail, {recipients, messages}: Known): Match[] {
	const reports = isOfNobody(item) ? [] : item.reading.reports;
	const recipient = recipients.get(id);
	if (recipient) {
		return [{item, via, recipient, report: saidOf(reports, recipient)}];
	}
	return recipientsNamed(messages.get(id) ?? [], reports).map(each => ({
		...{item, via, recipient: each.recipient},
		report: saidOf(each.reports, each.recipient),
	}));
}

/**
 * Whether a mail that is no report has the null sender: a bounce that could not be read, or a responder's. It asks for
 * nothing.
 */
export function isOfNobody({cameIn, reading}: Pick<ReadMail, 'cameIn' | 'reading'>): boolean {
	return reading.kind === 'other' && cameIn.mailFrom === '';
}

function saidOf(reports: readonly Report[], {address_key: addressKey}: Match['recipient']): Report | undefined {
	const summary = summaryOf(reports, addressKey);
	return summary && cutReport(summary);
}

/**
 * Finds the recipients a report is about: those it names by address, else the `to` recipient (decision 8: the
 * Message-ID is the same for every recipient).
 */
function recipientsNamed(
	recipients: ReadonlyArray<Match['recipient']>,
	reports: readonly Report[],
): Array<{recipient: Match['recipient']; reports: Report[]}> {
	const to = recipients.filter(({role}) => role === 'to');
	const ofRecipient = new Map<Match['recipient'], Report[]>();
	for (const report of reports) {
		const named = recipients.filter(({address_key: addressKey}) => names(report, addressKey));
		for (const recipient of named.length > 0 ? named : to) {
			ofRecipient.set(recipient, [...(ofRecipient.get(recipient) ?? []), report]);
		}
	}
	return ofRecipient.size > 0
		? [...ofRecipient].map(([recipient, its]) => ({recipient, reports: its}))
		: to.map(recipient => ({recipient, reports: []}));
}

const mailedWithinMs = 90 * 86_400_000;
/** A report may name more; a reporter's collection of reports is not a report. */
const maxNamed = 20;

/**
 * The recipients that a trusted reporter's signed report without a token names by their address: the newest mail to it,
 * if it is of the last 90 days and from a single workspace. With several workspaces the right one is unknown (R3.19).
 */
export async function matchesOfReporter(trx: Knex.Transaction, item: ReadMail): Promise<Match[]> {
	if (item.reporter === null || item.reading.kind !== 'arf') {
		return [];
	}
	const requests = item.reading.reports.filter(({action}) => action === 'complaint' || action === 'unsubscribe');
	const since = idFloor('msg', Date.parse(item.cameIn.receivedAt) - mailedWithinMs);
	const matches: Match[] = [];
	for (const report of requests.slice(0, maxNamed)) {
		const key = keyNamed(report);
		const messageIds = key === null ? [] : await findLastMailed(trx, key, since);
		if (messageIds.length === 1) {
			const recipients = await findReportedRecipients(trx, {messageIds});
			matches.push(
				...recipients
					.filter(({role}) => role === 'to')
					.map(recipient => ({item, recipient, via: 'reporter' as const, report: cutReport(report)})),
			);
		}
	}
	return matches;
}

function keyNamed({recipient, originalRecipient}: Report): string | null {
	const parsed = parseAddress(originalRecipient ?? recipient ?? '', {utf8Local: true});
	return parsed.ok ? parsed.address.key : null;
}

/** How a mail that is kept was read, for `mailctl bounce unmatched`; JSON in the store. */
export type Review = {
	readonly kind: ReportKind;
	/** The first ones. */
	readonly reports: readonly Report[];
	/** The tokens that were found in it, and why they prove nothing. */
	readonly tried: ReadonlyArray<{readonly via: Via; readonly id: string; readonly fault: TokenFault}>;
};

/**
 * `late`: older than messages are kept; `gone`: the recipient does not exist, or no longer; `forged`: not made by us
 * for that recipient.
 */
export type TokenFault = 'late' | 'gone' | 'forged';

const maxShown = 10;

/** What is kept of a reading, as JSON text. */
export function reviewText(item: ReadMail, known: Known, acceptMs: number): string {
	const {kind, reports} = item.reading;
	const tried = item.candidates.slice(0, maxShown).flatMap(candidate => {
		const {via, id} = candidate;
		const recipient = known.recipients.get(id);
		if (recipient ? candidate.verify(recipient.address) : known.messages.has(id)) {
			return [];
		}
		const fault = isYoung(candidate, item.cameIn, acceptMs) ? (recipient ? 'forged' : 'gone') : 'late';
		return [{via, id, fault} as const];
	});
	return JSON.stringify({kind, reports: reports.slice(0, maxShown).map(cutReport), tried} satisfies Review);
}

/**
 * The summary of one mail's reports for an address (comparison form); undefined: nothing. If some reports name the
 * address, the others are about other recipients. If none does, all are about it: through an alias or a forwarding the
 * mail went to addresses that we do not know (R3.3).
 */
function summaryOf(reports: readonly Report[], addressKey: string): Report | undefined {
	const naming = reports.filter(report => names(report, addressKey));
	const about = naming.length > 0 ? naming : reports;
	const wish = about.find(({action}) => action === 'complaint' || action === 'unsubscribe');
	if (wish) {
		return wish;
	}
	const having = (...actions: readonly ReportAction[]) => about.filter(({action}) => actions.includes(action));
	const failed = having('failed');
	// The recipient failed only if no address behind its address was reached or may yet be; it is gone only if all of
	// them are.
	const [other] = [...having('delivered', 'relayed', 'expanded'), ...having('delayed')];
	return other ?? failed.find(({suppresses}) => !suppresses) ?? failed[0] ?? about[0];
}

/** Whether the report is about this address. */
function names({recipient, originalRecipient}: Report, addressKey: string): boolean {
	return [recipient, originalRecipient].some(named => named !== null && keyOf(named) === addressKey);
}

function keyOf(address: string): string {
	const parsed = parseAddress(address, {utf8Local: true});
	return parsed.ok ? parsed.address.key : address.toLowerCase();
}

const maxNameLength = 320;
const maxTextLength = 1024;

/** A report as it may be stored: short for any mail. */
function cutReport(report: Report): Report {
	const cut = (text: string | null, length: number) => text?.slice(0, length) ?? null;
	return {
		...report,
		recipient: cut(report.recipient, maxNameLength),
		originalRecipient: cut(report.originalRecipient, maxNameLength),
		status: cut(report.status, maxNameLength),
		host: cut(report.host, maxNameLength),
		rule: cut(report.rule, maxNameLength),
		matched: cut(report.matched, maxNameLength),
		// The reader has bounded the URL of a click, which is of no use in part.
		reason: report.action === 'clicked' ? report.reason : report.reason.slice(0, maxTextLength),
		feedbackType: cut(report.feedbackType, maxNameLength),
	};
}
