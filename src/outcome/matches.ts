import type {Knex} from 'knex';
import {parseAddress} from '../mail/address.ts';
import {idFloor, idTime} from '../mail/ids.ts';
import type {Candidate, Reading, Report, ReportAction, ReportKind, StoredInbound, Via} from '../mail/report.ts';
import {findLastMailed, findReportedRecipients} from '../store/reports.ts';
import type {ReceivedMail} from './received.ts';

/** Incoming mail that was read and is to be recorded. */
export type ReadMail = {
	readonly inbound: StoredInbound;
	/** In octets. */
	readonly size: number;
	readonly reading: Reading;
	/** Best first. */
	readonly candidates: readonly Candidate[];
	/** The mail as stored for workspaces; absent if it is for none. */
	readonly received?: readonly ReceivedMail[];
	/** The signer of a feedback report without a token if the operator trusts it (R3.19), otherwise `null`. */
	readonly reporter: string | null;
	/** The current time in the store's format. */
	readonly at: string;
};

/** A recipient that incoming mail is proven to be about, and its report (`undefined` if unreadable). */
export type Match = {
	readonly item: ReadMail;
	readonly recipient: Awaited<ReturnType<typeof findReportedRecipients>>[number];
	readonly via: Via;
	readonly report: Report | undefined;
};

/** The known recipients by their ids and by the ids of their messages. */
export type Known = {
	readonly recipients: ReadonlyMap<string, Match['recipient']>;
	readonly messages: ReadonlyMap<string, ReadonlyArray<Match['recipient']>>;
};

/** An envelope may have several recipients. Every other kind of clue identifies the first one with a valid token. */
export const envelopeVias: ReadonlySet<Via> = new Set(['unsubscribe_mail', 'return_path']);

/** Returns the recipients that the mail is about: those of the first kind of clue with a valid, unexpired token. */
export function findMatches(item: ReadMail, known: Known, acceptMs: number): Match[] {
	const proven: Candidate[] = [];
	for (const candidate of item.candidates) {
		const [first] = proven;
		if (first && !(candidate.via === first.via && envelopeVias.has(candidate.via))) {
			break;
		}
		if (isTokenRecent(candidate, item.inbound, acceptMs) && isProven(candidate, known)) {
			proven.push(candidate);
		}
	}
	return proven.flatMap(candidate => toMatches(candidate, item, known));
}

/** Whether a token is recent enough to count (R3.2). */
export function isTokenRecent({id}: Pick<Candidate, 'id'>, {receivedAt}: StoredInbound, acceptMs: number): boolean {
	return Date.parse(receivedAt) - idTime(id) <= acceptMs;
}

function isProven({id, verify}: Candidate, {recipients, messages}: Known): boolean {
	const recipient = recipients.get(id);
	return recipient ? verify(recipient.address) : messages.has(id) && verify('');
}

function toMatches({id, via}: Candidate, item: ReadMail, {recipients, messages}: Known): Match[] {
	const reports = isOfNobody(item) ? [] : item.reading.reports;
	const recipient = recipients.get(id);
	if (recipient) {
		return [{item, via, recipient, report: summarize(reports, recipient)}];
	}
	return groupByRecipient(messages.get(id) ?? [], reports).map(group => ({
		item,
		via,
		recipient: group.recipient,
		report: summarize(group.reports, group.recipient),
	}));
}

/** Whether mail that is not a report has the null sender, like an unreadable bounce or an automatic reply. */
export function isOfNobody({inbound, reading}: Pick<ReadMail, 'inbound' | 'reading'>): boolean {
	return reading.kind === 'other' && inbound.mailFrom === '';
}

function summarize(reports: readonly Report[], {address_key: addressKey}: Match['recipient']): Report | undefined {
	const summary = findSummary(reports, addressKey);
	return summary && cutReport(summary);
}

/**
 * Groups reports by the recipients that they are about: those named by address, else the `to` recipient. The Message-ID
 * is the same for every recipient (decision 8).
 */
function groupByRecipient(
	recipients: ReadonlyArray<Match['recipient']>,
	reports: readonly Report[],
): Array<{recipient: Match['recipient']; reports: Report[]}> {
	const to = recipients.filter(({role}) => role === 'to');
	const groups = new Map<Match['recipient'], Report[]>();
	for (const report of reports) {
		const named = recipients.filter(({address_key: addressKey}) => isAbout(report, addressKey));
		for (const recipient of named.length > 0 ? named : to) {
			groups.set(recipient, [...(groups.get(recipient) ?? []), report]);
		}
	}
	return groups.size > 0
		? [...groups].map(([recipient, group]) => ({recipient, reports: group}))
		: to.map(recipient => ({recipient, reports: []}));
}

const mailedWithinMs = 90 * 86_400_000;
/** A report seldom names more. The rest of a longer list is ignored. */
const maxNamed = 20;

/**
 * Returns the recipients that a trusted reporter's signed report without a token names by address. Each is that of the
 * newest message to the address, if that is from the last 90 days and a single workspace. Among several workspaces, the
 * right one cannot be determined (R3.19).
 */
export async function findReporterMatches(trx: Knex.Transaction, item: ReadMail): Promise<Match[]> {
	if (item.reporter === null || item.reading.kind !== 'arf') {
		return [];
	}
	const requests = item.reading.reports.filter(({action}) => action === 'complaint' || action === 'unsubscribe');
	const since = idFloor('msg', Date.parse(item.inbound.receivedAt) - mailedWithinMs);
	const matches: Match[] = [];
	for (const report of requests.slice(0, maxNamed)) {
		const key = findNamedKey(report);
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

function findNamedKey({recipient, originalRecipient}: Report): string | null {
	const parsed = parseAddress(originalRecipient ?? recipient ?? '', {allowsUtf8Local: true});
	return parsed.ok ? parsed.address.key : null;
}

/** How stored mail was read, for `mailctl bounce unmatched`. It is JSON in the store. */
export type Review = {
	readonly kind: ReportKind;
	/** The first ones only. */
	readonly reports: readonly Report[];
	/** The tokens found in it, and why they prove nothing. */
	readonly tried: ReadonlyArray<{readonly via: Via; readonly id: string; readonly fault: TokenProblem}>;
};

/** `late`: older than the retention. `gone`: no such recipient. `forged`: not our token for that recipient. */
export type TokenProblem = 'late' | 'gone' | 'forged';

const maxShown = 10;

/** Returns the part of a reading that is stored, as JSON text. */
export function reviewText(item: ReadMail, known: Known, acceptMs: number): string {
	const {kind, reports} = item.reading;
	const tried = item.candidates.slice(0, maxShown).flatMap(candidate => {
		const {via, id} = candidate;
		const recipient = known.recipients.get(id);
		if (recipient ? candidate.verify(recipient.address) : known.messages.has(id)) {
			return [];
		}
		const fault = isTokenRecent(candidate, item.inbound, acceptMs) ? (recipient ? 'forged' : 'gone') : 'late';
		return [{via, id, fault} as const];
	});
	return JSON.stringify({kind, reports: reports.slice(0, maxShown).map(cutReport), tried} satisfies Review);
}

/**
 * Returns the summary of one mail's reports for an address (in comparison form), if there are any. If some reports name
 * the address, the others are about other recipients. If none does, all are about it: an alias or forwarding led to
 * addresses unknown to us (R3.3).
 */
function findSummary(reports: readonly Report[], addressKey: string): Report | undefined {
	const naming = reports.filter(report => isAbout(report, addressKey));
	const relevant = naming.length > 0 ? naming : reports;
	const request = relevant.find(({action}) => action === 'complaint' || action === 'unsubscribe');
	if (request) {
		return request;
	}
	const withAction = (...actions: readonly ReportAction[]) => relevant.filter(({action}) => actions.includes(action));
	const failed = withAction('failed');
	// An alias may lead to several addresses. It failed only if none of them may still be reached, and it does not
	// exist only if none of them exists.
	const [reachable] = [...withAction('delivered', 'relayed', 'expanded'), ...withAction('delayed')];
	return reachable ?? failed.find(({suppresses}) => !suppresses) ?? failed[0] ?? relevant[0];
}

/** Whether the report is about this address. */
function isAbout({recipient, originalRecipient}: Report, addressKey: string): boolean {
	return [recipient, originalRecipient].some(named => named !== null && keyOf(named) === addressKey);
}

function keyOf(address: string): string {
	const parsed = parseAddress(address, {allowsUtf8Local: true});
	return parsed.ok ? parsed.address.key : address.toLowerCase();
}

const maxNameLength = 320;
const maxTextLength = 1024;

/** Shortens the texts of a report before it is stored, because any mail may contain them. */
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
		// The reader has limited the length of a click's URL, which would be useless in part.
		reason: report.action === 'clicked' ? report.reason : report.reason.slice(0, maxTextLength),
		feedbackType: cut(report.feedbackType, maxNameLength),
	};
}
