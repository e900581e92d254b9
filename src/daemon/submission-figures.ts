import {Counter, type Registry} from 'prom-client';
import type {RefusalReason} from '../submission/submit.ts';
import {registerAsked} from './asked-gauge.ts';

/** What programs submit by SMTP. */
export type SubmissionFigures = {
	/** A mail was answered with 250, for so many recipients. */
	readonly taken: (messages: number) => void;
	readonly refused: (reason: RefusalReason) => void;
};

/** `sessions`: those that are open now; null: there is no listener. Asked at each scrape. */
export function registerSubmission(registers: Registry[], sessions: () => number | null): SubmissionFigures {
	registerAsked(registers, {
		name: 'mailctl_submission_sessions',
		help: 'SMTP sessions that the listener for submission has now.',
		ask: sessions,
	});
	const mails = new Counter({
		name: 'mailctl_submission_mails_total',
		help: 'Mails that programs submitted and that were taken.',
		registers,
	});
	const messages = new Counter({
		name: 'mailctl_submission_messages_total',
		help: 'Messages that they became, one for each recipient.',
		registers,
	});
	const refusals = new Counter({
		name: 'mailctl_submission_refused_total',
		help: 'Log-ins, recipients, mails and sessions that the listener for submission refused.',
		labelNames: ['reason'],
		registers,
	});
	return {
		taken(count) {
			mails.inc();
			messages.inc(count);
		},
		refused: reason => refusals.inc({reason}),
	};
}
