import type {Command} from 'commander';
import {openSigning, postingOf} from '../daemon/webhooks.ts';
import {storeTime} from '../mail/time.ts';
import {webhookBody} from '../mail/webhook.ts';
import type {Endpoint} from '../store/webhook-endpoints.ts';
import {createPosting} from '../threads/posting.ts';
import type {PostEnd} from '../webhook/post.ts';
import {signingAt} from '../webhook/sign.ts';
import {chosenEndpoint} from './endpoint.ts';
import {CliError} from './fault.ts';
import {verb} from './program.ts';
import {action, type Session} from './session.ts';
import {fields} from './table.ts';
import {version} from './version.ts';

export function testVerb(webhook: Command): void {
	verb(
		webhook,
		'test <id>',
		'Post a signed example event now and show what comes back; nothing is stored',
		'mailctl webhook test whe_06f…',
	).action(
		action<object, [string]>(async (session, _options, id) => {
			const endpoint = await chosenEndpoint(session, id);
			const end = await postExample(session, endpoint);
			session.show({acknowledged: end.error === null, ...end, ms: Math.round(end.ms)}, () =>
				fields([
					['answer', end.status ?? 'none'],
					['took', `${Math.round(end.ms)} ms`],
					['address', end.address],
					['tls', end.tls],
					...(end.detail === null ? [] : ([['detail', end.detail]] as const)),
				]),
			);
			if (end.error !== null) {
				throw new CliError('unavailable', `${endpoint.url} did not acknowledge it: ${end.error}`, mendOf(end));
			}
		}),
	);
}

/** From this process, with the settings that the daemon has. */
async function postExample(session: Session, endpoint: Endpoint): Promise<PostEnd> {
	const {id, url, events} = endpoint;
	const {clock, newId} = session.tools;
	const [type = 'delivered'] = events;
	const event = {type, messageId: newId('msg'), recipient: 'user@example.com', metadata: null};
	const body = Buffer.from(webhookBody({...event, occurredAt: storeTime(clock.now())}));
	const signing = openSigning(await session.vault(), id, signingAt(endpoint, storeTime(clock.now())));
	const {post, close} = createPosting(postingOf(session.settings(), version()), clock);
	const end = await post({id: newId('whd'), url, signing, body});
	close();
	return end;
}

function mendOf({status}: PostEnd): string {
	return status === null ? 'check the URL, its DNS and its certificate' : 'answer 2xx, see the log of the receiver';
}
