import {parseExact, writeExact} from '../../kit/exact-json.ts';
import type {SentMessage} from '../../store/messages.ts';

/** The call of the API that sends such a message, for a shell. Attachments are left out: they would not fit a line. */
export function curlCommand(apiUrl: string, sent: SentMessage): string {
	const {from, to, cc, replyTo, templateId, data, metadata, tags, topicCode, locale, timezone, tracking} = sent;
	const parsed = (json: string | null) => (json === null ? undefined : parseExact(json));
	const body = {
		from,
		to,
		cc: parsed(cc),
		replyTo: replyTo ?? undefined,
		templateId,
		data: parsed(data),
		metadata: parsed(metadata),
		tags: parsed(tags),
		unsubscribeGroup: topicCode ?? undefined,
		locale: locale ?? undefined,
		timezone: timezone ?? undefined,
		tracking: parsed(tracking),
	};
	return [
		`curl -sS ${apiUrl}/v1/messages \\`,
		"  -H 'Content-Type: application/json' \\",
		'  -H "Authorization: Bearer $API_KEY" \\',
		`  --data-binary ${quoted(writeExact(body, 2))}`,
	].join('\n');
}

/** As one word of a shell. */
const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;
