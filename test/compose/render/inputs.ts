import type {RenderInput, RenderVariant} from '../../../src/compose/render/render.ts';
import {writeExact} from '../../../src/kit/exact-json.ts';

/** The input of a render with the parts that a test cares about. */
export function input(data: Record<string, unknown> = {}, more: Partial<RenderInput> = {}): RenderInput {
	return {
		data: writeExact(data),
		locale: 'en',
		timezone: 'UTC',
		recipient: {email: 'ada@reader.example'},
		unsubscribe_url: 'https://mail.example/u',
		preferences_url: 'https://mail.example/p',
		workspace: {name: 'Acme'},
		message: {id: 'msg_1', locale: 'en'},
		...more,
	};
}

/** A variant whose missing parts are empty. */
export function variant(parts: Partial<RenderVariant>): RenderVariant {
	return {id: JSON.stringify(parts), subject: '', html: '', text: '', ...parts};
}
