import type {ApiParts} from './api-parts.ts';
import {batchRoutes} from './routes/batch.ts';
import {contactRoutes} from './routes/contacts.ts';
import {domainRoutes} from './routes/domains.ts';
import {eventRoutes} from './routes/events.ts';
import {messageContentRoutes} from './routes/message-content.ts';
import {messageListRoutes} from './routes/message-list.ts';
import {messageRecipientRoutes} from './routes/message-recipient-routes.ts';
import {messageRoutes} from './routes/messages.ts';
import {resendRoutes} from './routes/resend.ts';
import {senderRoutes} from './routes/senders.ts';
import {statsRoutes} from './routes/stats.ts';
import {suppressionFileRoutes} from './routes/suppression-files.ts';
import {suppressionRoutes} from './routes/suppressions.ts';
import {templateRoutes} from './routes/templates.ts';
import {topicRoutes} from './routes/topics.ts';
import {usageRoutes} from './routes/usage.ts';
import {versionRoutes} from './routes/versions.ts';
import {webhookDeliveryRoutes} from './routes/webhook-deliveries.ts';
import {webhookRoutes} from './routes/webhooks.ts';
import type {Routes} from './server.ts';

/** Every route under /v1. */
export function apiRoutes(parts: ApiParts): Routes[] {
	return [
		messageRoutes(parts),
		batchRoutes(parts),
		usageRoutes(parts),
		statsRoutes(parts),
		messageListRoutes(parts),
		messageRecipientRoutes(parts),
		messageContentRoutes(parts),
		resendRoutes(parts),
		eventRoutes(parts),
		...suppressionRoutes(parts),
		suppressionFileRoutes(parts),
		...topicRoutes(parts),
		...contactRoutes(parts),
		...templateRoutes(parts),
		versionRoutes(parts),
		...domainRoutes(parts),
		...senderRoutes(parts),
		...webhookRoutes(parts),
		webhookDeliveryRoutes(parts),
	];
}
