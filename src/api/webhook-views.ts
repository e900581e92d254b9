import {apiTime} from '../mail/time.ts';
import type {StoredDelivery} from '../store/webhook-deliveries.ts';
import type {Endpoint} from '../store/webhook-endpoints.ts';

const timeOrNull = (stored: string | null) => (stored === null ? null : apiTime(stored));

/** An endpoint as the API shows it (interface.md, Webhook endpoint), with `failing_since` besides. */
export function endpointView({id, url, events, disabledAt, failingSince, createdAt}: Endpoint, secret: string) {
	return {
		id,
		url,
		events,
		active: disabledAt === null,
		signing_secret: secret,
		failing_since: timeOrNull(failingSince),
		created_at: apiTime(createdAt),
	};
}

/** A delivery as the API shows it (interface.md, Webhook delivery), with what the last attempt came to besides. */
export function deliveryView(delivery: StoredDelivery) {
	return {
		id: delivery.id,
		event_type: delivery.eventType,
		status: delivery.state,
		attempts: delivery.attempts,
		payload: JSON.parse(Buffer.from(delivery.body).toString()) as object,
		last_attempt_at: timeOrNull(delivery.lastAttemptAt),
		last_status: delivery.lastStatus,
		last_error: delivery.lastError,
		next_attempt_at: timeOrNull(delivery.nextAttemptAt),
		message_id: delivery.messageId,
		created_at: apiTime(delivery.createdAt),
	};
}
