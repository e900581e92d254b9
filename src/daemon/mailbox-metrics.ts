import {Counter, Gauge, type Registry} from 'prom-client';
import type {MailboxFigures} from './mailbox.ts';

/** How the mailbox that is polled for bounces is doing; null where there is none, or not in this process. */
export function registerMailboxMetrics(registers: Registry[], figures: () => MailboxFigures | null): void {
	new Gauge({
		name: 'mailctl_mailbox_up',
		help: 'Whether the bounce mailbox could be read the last time.',
		registers,
		collect() {
			this.remove();
			const up = figures()?.up ?? null;
			if (up !== null) {
				this.set(up ? 1 : 0);
			}
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
