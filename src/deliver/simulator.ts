import type {Outcome} from '../mail/outcome.ts';
import {simulatorDomain} from '../mail/simulator.ts';
import {type SmtpReply, smtpReply} from '../mail/smtp-reply.ts';

export const simulatorKinds = [
	'delivered',
	'bounced',
	'soft-bounced',
	'deferred',
	'complained',
	'suppressed',
	'errored',
	'opened',
	'clicked',
] as const;
type SimulatorKind = (typeof simulatorKinds)[number];

/** A simulated deferral ignores the retry schedule, milliseconds. */
export const simulatorWaitMs = 1000;
const lastTry = 3;

/** What the local part asks for (`bounced+label@simulator.test`); any other address is delivered. */
export function simulatorKind(address: string): SimulatorKind {
	const at = address.lastIndexOf('@');
	if (address.slice(at + 1).toLowerCase() !== simulatorDomain) {
		return 'delivered';
	}

	const [local = ''] = address.slice(0, at).toLowerCase().split('+');
	return simulatorKinds.find(kind => kind === local) ?? 'delivered';
}

/** The outcome of one try, counted from 1. */
export function simulate(kind: SimulatorKind, attempt: number): Outcome {
	switch (kind) {
		case 'bounced':
			return {
				kind: 'bounced',
				type: 'permanent',
				category: 'unknown_user',
				reason: '550 5.1.1 simulated: no such user',
				suppresses: true,
			};
		case 'soft-bounced':
			return attempt < lastTry
				? deferred('452 4.2.2 simulated: mailbox full')
				: {
						kind: 'bounced',
						type: 'transient',
						category: 'mailbox_full',
						reason: '452 4.2.2 simulated: mailbox still full',
						suppresses: false,
					};
		case 'deferred':
			return attempt < lastTry ? deferred('451 4.7.1 simulated: try again later') : {kind: 'delivered'};
		case 'suppressed':
			return {kind: 'suppressed', reason: 'simulated'};
		case 'errored':
			return {kind: 'errored', reason: 'simulated'};
		case 'delivered':
			return {kind: 'delivered'};
		case 'complained':
		case 'opened':
		case 'clicked':
			return {kind: 'delivered', follows: kind};
	}
}

/** What the simulated host said, as a try records it; null: the mail did not come to a host. */
export function simulatedReply(outcome: Outcome): SmtpReply | null {
	switch (outcome.kind) {
		case 'delivered':
			return smtpReply(250, ['2.0.0 simulated: taken']);
		case 'bounced':
		case 'deferred':
			return smtpReply(Number(outcome.reason.slice(0, 3)), [outcome.reason.slice(4)]);
		default:
			return null;
	}
}

function deferred(reason: string): Outcome {
	return {kind: 'deferred', category: 'undetermined', reason, waitMs: simulatorWaitMs};
}
