import {apiTime} from '../mail/time.ts';
import type {StoredDelivery} from '../store/webhook-deliveries.ts';
import type {Endpoint} from '../store/webhook-endpoints.ts';

const timeOrNull = (stored: string | null) => (stored === null ? null : apiTime(stored));

/** An endpoint as the API shows it, at a time in the store's form. */
export function endpointView(endpoint: Endpoint, secret: string, now: string) {
	const {id, mode, url, events, disabledAt, failingSince, createdAt, previousUntil} = endpoint;
	return {
		id,
		url,
		events,
		mode,
		active: disabledAt === null,
		signing_secret: secret,
		previous_secret_expires_at: timeOrNull(previousUntil !== null && previousUntil > now ? previousUntil : null),
		failing_since: timeOrNull(failingSince),
		created_at: apiTime(createdAt),
	};
}

/** A delivery as the API shows it (docs/reference/interface.md, Webhook delivery), with what the last attempt came to besides. */
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
