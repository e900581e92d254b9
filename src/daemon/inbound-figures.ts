import {Counter, type Registry} from 'prom-client';
import type {RefusalReason} from '../inbound/listener.ts';
import type {EventType} from '../mail/event.ts';
import type {InboundSource, Kept, ReportAction, ReportKind} from '../mail/report.ts';
import {registerAsked} from './asked-gauge.ts';
import type {MailboxFigures} from './mailbox.ts';

/** Asked at each scrape. */
export type InboundInput = {
	/** Mails that were taken in and not read yet; left out where the store fails. */
	readonly unread: () => Promise<number>;
	/** Open SMTP sessions of the listener; null: there is no listener. */
	readonly sessions: () => number | null;
	/** How the bounce mailbox is doing; null: there is none. */
	readonly mailbox: () => MailboxFigures | null;
};

/** What came in. `unread`: it could not be read. `dropped`: it went round in circles. */
export type InboundFigures = {
	readonly mail: (source: InboundSource, kind: ReportKind | 'unread' | 'dropped') => void;
	readonly refused: (reason: RefusalReason) => void;
	/** What a mail says of a copy, and the event that came of it; null: none. */
	readonly report: (kind: ReportKind, action: ReportAction, event: EventType | null) => void;
	readonly kept: (kept: Kept) => void;
};

export function registerInbound(registers: Registry[], {unread, sessions, mailbox}: InboundInput): InboundFigures {
	registerAsked(registers, {
		name: 'mailctl_inbound_unread',
		help: 'Mails that came in and wait to be read.',
		ask: unread,
	});
	registerAsked(registers, {
		name: 'mailctl_inbound_sessions',
		help: 'SMTP sessions that the listener for reports has now.',
		ask: sessions,
	});
	registerMailboxMetrics(registers, mailbox);
	const mails = new Counter({
		name: 'mailctl_inbound_mails_total',
		help: 'Mails that came in and were read, by where they came from and what they are.',
		labelNames: ['source', 'kind'],
		registers,
	});
	const refusals = new Counter({
		name: 'mailctl_inbound_refused_total',
		help: 'Addresses, mails and sessions that the listener for reports refused.',
		labelNames: ['reason'],
		registers,
	});
	const reports = new Counter({
		name: 'mailctl_reports_total',
		help: 'What mails that came in say of copies, once each, by the event that it led to (none: it is a report only).',
		labelNames: ['kind', 'action', 'event'],
		registers,
	});
	const kept = new Counter({
		name: 'mailctl_inbound_kept_total',
		help: 'Mails that came in and are kept for a person: about no copy (unmatched), not readable, for the operator.',
		labelNames: ['kept'],
		registers,
	});
	return {
		report: (kind, action, event) => reports.inc({kind, action, event: event ?? 'none'}),
		kept: why => kept.inc({kept: why}),
		mail: (source, kind) => mails.inc({source, kind}),
		refused: reason => refusals.inc({reason}),
	};
}

/** How the mailbox that is polled for bounces is doing; null where there is none, or not in this process. */
export function registerMailboxMetrics(registers: Registry[], figures: () => MailboxFigures | null): void {
	registerAsked(registers, {
		name: 'mailctl_mailbox_up',
		help: 'Whether the bounce mailbox could be read the last time.',
		ask: () => {
			const up = figures()?.up ?? null;
			return up === null ? null : Number(up);
		},
	});
	new Counter({
		name: 'mailctl_mailbox_mails_total',
		help: 'Mails read from the bounce mailbox: new ones, and ones that had come before.',
		labelNames: ['result'],
		registers,
		collect() {
			this.reset();
			const now = figures();
			if (now) {
				this.inc({result: 'new'}, now.taken);
				this.inc({result: 'known'}, now.known);
			}
		},
	});
	new Counter({
		name: 'mailctl_mailbox_failures_total',
		help: 'Times that the bounce mailbox could not be read.',
		registers,
		collect() {
			this.reset();
			this.inc(figures()?.failures ?? 0);
		},
	});
}
