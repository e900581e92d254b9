import type {createMailLog} from '../log/maillog.ts';
import type {Recorded} from '../outcome/record.ts';
import type {Attempted} from '../webhook/turn.ts';
import type {createMetrics} from './metrics.ts';

type Told = {readonly metrics: ReturnType<typeof createMetrics>; readonly mailLog: ReturnType<typeof createMailLog>};

/** Tells the figures and the log what is on stable storage. */
export function createTelling({metrics, mailLog}: Told) {
	return {
		recorded({copy, result, verdict}: Recorded): void {
			const delayMs = Date.parse(result.at) - Date.parse(copy.created_at);
			const judged = {...result, outcome: verdict.outcome};
			metrics.attempted(judged, delayMs);
			mailLog.attempted({messageId: copy.message_id, recipient: copy.address, workspace: copy.workspace_id}, judged, {
				delayMs,
				attempt: verdict.attempts,
			});
		},

		posted(attempted: Attempted): void {
			const {delivery, end, after} = attempted;
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
				state: after.state,
				attempt: after.attempts,
				ms: end.ms,
			});
		},
	};
}
