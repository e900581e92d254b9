import type {DomainCheck} from '../domains/verify-domain.ts';
import type {Clock} from '../kit/clock.ts';
import type {createMailLog} from '../log/maillog.ts';
import {isLogInRefusal} from '../mail/outcome.ts';
import type {QueueKey} from '../mail/route.ts';
import type {JudgedTry, TriedRecipient} from '../outcome/settle.ts';
import type {MakeJob} from '../queue/renderers.ts';
import type {InfrastructureAlarm} from '../reputation/alarm.ts';
import type {Judged} from '../reputation/guard.ts';
import {findingsText} from '../reputation/words.ts';
import type {Attempted} from '../webhook/turn.ts';
import type {createMetrics} from './metrics.ts';
import {createThrottle} from './throttle.ts';

type TellingOptions = {
	readonly metrics: ReturnType<typeof createMetrics>;
	readonly mailLog: ReturnType<typeof createMailLog>;
	/** Watches what providers say of this machine. */
	readonly infrastructure: Pick<InfrastructureAlarm, 'tried'>;
	readonly clock: Pick<Clock, 'monotonic'>;
};

/** How often it is said again that a smarthost refuses our log-in. */
const refusalEveryMs = 10 * 60_000;
/** How often it is said again that a provider refuses too much because of us. */
const providerEveryMs = 60 * 60_000;
/** How often it is said again that mail of a workspace finds no way, or that what mail is made of cannot be used. */
const wayEveryMs = 60_000;

/** Tells the figures and the log what is on stable storage. */
export function createTelling({metrics, mailLog, infrastructure, clock}: TellingOptions) {
	const tellsOfRefusal = createThrottle(refusalEveryMs, clock);
	const tellsOfProvider = createThrottle(providerEveryMs, clock);
	const tellsOfWay = createThrottle(wayEveryMs, clock);
	const tellsOfResource = createThrottle(wayEveryMs, clock);
	return {
		recorded({recipient, result, verdict}: JudgedTry): void {
			const delayMs = Date.parse(result.at) - Date.parse(recipient.created_at);
			const judged = {...result, outcome: verdict.outcome};
			const begun = result.attempts[0]?.at ?? result.sentAt;
			const waitMs =
				recipient.attempts === 0 && begun !== null ? Date.parse(begun) - Date.parse(recipient.created_at) : null;
			metrics.attempted(judged, delayMs, waitMs);
			mailLog.attempted(
				{messageId: recipient.message_id, recipient: recipient.address, workspace: recipient.workspace_id},
				judged,
				{
					delayMs,
					attempt: verdict.attempts,
				},
			);
			// The mail may have gone by the next smarthost: nobody else would tell.
			for (const {host, reply} of result.attempts.filter(isLogInRefusal)) {
				if (tellsOfRefusal(host ?? '')) {
					mailLog.logInRefused({host, reply});
				}
			}
			const alarm = infrastructure.tried(result);
			if (alarm !== null && tellsOfProvider(alarm.provider)) {
				mailLog.infrastructureAlarm(alarm);
			}
		},

		judged({kind, workspaceId, name, findings}: Judged): void {
			mailLog.reputation({workspace: workspaceId, name, kind, figures: findingsText(findings)});
		},

		recipientFault(error: unknown, recipient: TriedRecipient): void {
			mailLog.recipientFault(
				{messageId: recipient.message_id, recipient: recipient.address, workspace: recipient.workspace_id},
				error,
			);
		},

		routeNotFound(error: unknown, {destination, workspaceId}: QueueKey): void {
			if (tellsOfWay(workspaceId)) {
				const message = error instanceof Error ? error.message : String(error);
				mailLog.routeNotFound({workspace: workspaceId, destination, message});
			}
		},

		resourceFault({workspaceId, from}: MakeJob, message: string): void {
			if (tellsOfResource(`${workspaceId} ${message}`)) {
				mailLog.resourceFault({workspace: workspaceId, from, message});
			}
		},

		webhookSecretFault(error: unknown, endpoint: string): void {
			if (tellsOfResource(endpoint)) {
				mailLog.webhookSecretFault({endpoint, error});
			}
		},

		domainChecked({before, domain, records, activated}: DomainCheck): void {
			const about = {domain: domain.name, workspace: domain.workspace_id};
			if (domain.state !== before.state) {
				const lacking = records.filter(({ok, required}) => required && !ok).map(({name}) => name);
				mailLog.domainState({...about, from: before.state, to: domain.state, lacking});
			}
			for (const selector of activated) {
				mailLog.domainKey({...about, selector});
			}
			if ((domain.return_path_at === null) !== (before.return_path_at === null)) {
				mailLog.domainReturnPath({...about, used: domain.return_path_at !== null});
			}
		},

		posted(attempted: Attempted): void {
			const {delivery, end, after} = attempted;
			if (end === null) {
				return;
			}
			metrics.webhookAttempted(after.state, end.ms);
			mailLog.webhookAttempted({
				messageId: delivery.messageId,
				workspace: delivery.workspaceId,
				endpoint: delivery.endpointId,
				delivery: delivery.id,
				type: delivery.eventType,
				host: URL.canParse(delivery.url) ? new URL(delivery.url).host : '',
				status: end.status,
				error: end.error,
				detail: end.detail,
				state: after.state,
				attempt: after.attempts,
				ms: end.ms,
			});
		},
	};
}

export type Telling = ReturnType<typeof createTelling>;
