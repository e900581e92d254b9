import {type Html, html} from '../../hosted/html.ts';
import {type WebhookEventType, webhookEventTypes} from '../../mail/message.ts';
import type {Endpoint} from '../../store/webhooks.ts';
import type {Guard} from '../../webhook/address-guard.ts';
import {act, input, join} from '../markup.ts';

type EndpointFields = Pick<Endpoint, 'url' | 'events'>;

const aboutEvents: Readonly<Record<WebhookEventType, string>> = {
	delivered: 'the recipient’s server took the message',
	bounced: 'it did not arrive and will not',
	complained: 'the recipient said that it is spam',
	opened: 'the recipient looked at it',
	clicked: 'the recipient followed a link',
};

/** Asks for an endpoint's URL and events. */
export function endpointForm(to: string, label: string, {url, events}: EndpointFields): Html {
	const checks = webhookEventTypes.map(
		type =>
			html`<label class="field check"><input type="checkbox" name="event" value="${type}"${
				events.includes(type) ? html` checked` : null
			}> <span>${type}: ${aboutEvents[type]}</span></label>`,
	);
	const fields = join([
		input({name: 'url', label: 'URL', required: true, value: url, placeholder: 'https://shop.example/hooks/mail'}),
		html`<fieldset><legend>Events</legend>${checks}</fieldset>`,
	]);
	return act({to, label, fields});
}

/** What was typed into the form. */
export function typedFields(form: URLSearchParams): EndpointFields {
	const chosen = new Set(form.getAll('event'));
	return {url: form.get('url')?.trim() ?? '', events: webhookEventTypes.filter(type => chosen.has(type))};
}

/** What is wrong with it; null: nothing. */
export function fieldsFault({url, events}: EndpointFields, guard: Guard): string | null {
	const fault = guard.urlFault(url);
	if (fault !== null) {
		return `The URL ${fault}.`;
	}
	return events.length === 0 ? 'Choose at least one event.' : null;
}
