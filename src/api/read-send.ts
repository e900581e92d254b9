import type {Send} from '../accept/draft.ts';
import type {Address} from '../mail/address.ts';
import type {ApiErrorCode, Violation} from '../mail/api-error.ts';
import type {Caller} from './caller.ts';
import {canonicalLocale, checkedAddress, decodeBase64} from './schemas/formats.ts';
import {type SendBody, sendBody} from './schemas/send.ts';
import {variablesJson} from './schemas/variables.ts';
import type {Checks} from './validate.ts';

export type ReadSend =
	| {readonly ok: true; readonly send: Send}
	| {readonly ok: false; readonly code: ApiErrorCode; readonly violations?: readonly Violation[]};

/** Reads the body of a send, or an item of a batch: checks its shape and turns its texts into what they mean. */
export function createReadSend(checks: Checks): (body: unknown, caller: Caller) => ReadSend {
	const check = checks.checkOf(sendBody);
	return (body, caller) => {
		const violations = check(withoutEmptyPreferences(body));
		if (violations.length === 0) {
			return {ok: true, send: toSend(body as SendBody, caller)};
		}
		return isOnlyWithoutTemplate(body, violations)
			? {ok: false, code: 'template_required'}
			: {ok: false, code: 'validation_failed', violations};
	};
}

// The first non-empty locale and timezone win: an empty one is as good as none.
function withoutEmptyPreferences(body: unknown): unknown {
	if (typeof body === 'object' && body !== null) {
		const fields = body as {locale?: unknown; timezone?: unknown};
		if (fields.locale === '') {
			fields.locale = undefined;
		}
		if (fields.timezone === '') {
			fields.timezone = undefined;
		}
	}
	return body;
}

function isOnlyWithoutTemplate(body: unknown, violations: readonly Violation[]): boolean {
	if (violations.length !== 1 || violations[0]?.field !== 'templateId') {
		return false;
	}
	const {templateId} = body as {templateId?: unknown};
	return templateId === undefined || templateId === '';
}

function toSend(body: SendBody, {workspaceId, mode}: Caller): Send {
	const to = checkedAddress(body.to);
	return {
		workspaceId,
		mode,
		from: checkedAddress(body.from),
		to,
		cc: copies(body.cc ?? [], to),
		replyTo: body.replyTo === undefined ? null : checkedAddress(body.replyTo),
		templateId: body.templateId,
		data: json(body.data, variablesJson),
		metadata: json(body.metadata),
		tags: json(body.tags),
		topicCode: body.unsubscribeGroup ?? null,
		locale: body.locale === undefined ? null : canonicalLocale(body.locale),
		timezone: body.timezone ?? null,
		tracking: json(body.tracking),
		attachments: (body.attachments ?? []).map(({filename, contentType, content}) => ({
			filename,
			contentType,
			content: decodeBase64(content) ?? Buffer.alloc(0),
		})),
		resentFrom: null,
	};
}

function copies(cc: readonly string[], to: Address): Address[] {
	const byKey = new Map<string, Address>();
	for (const address of cc.map(checkedAddress)) {
		if (address.key !== to.key && !byKey.has(address.key)) {
			byKey.set(address.key, address);
		}
	}
	return [...byKey.values()];
}

function json(value: object | undefined, text: (value: object) => string = JSON.stringify): string | null {
	return value === undefined || Object.keys(value).length === 0 ? null : text(value);
}
