import {importSigningKey} from '../../compose/dkim.ts';
import {createLinks} from '../../compose/links/links.ts';
import type {TokenKeys} from '../../compose/links/tokens.ts';
import {processInputs} from '../../compose/render/in-worker.ts';
import {createRenderer} from '../../compose/render/render.ts';
import {collectLeaves, readMail} from '../../inbound/reports/mime.ts';
import {joined} from '../../kit/text.ts';
import {pooledRandom} from '../../mail/ids.ts';
import {submittedSource} from '../../mail/message.ts';
import type {MakeJob} from '../../queue/renderers.ts';
import {type MakeOptions, MessageComposer, type Variant} from './message-composer.ts';
import type {SigningKeyText} from './renderer.ts';

/** A recipient whose message is rendered again, with everything this requires. */
export type RerenderInput = {
	readonly options: Omit<MakeOptions, 'links' | 'renderer' | 'clock'>;
	readonly keys: TokenKeys;
	readonly publicUrl: string;
	/** The time for its signatures, in milliseconds. */
	readonly now: number;
	readonly job: MakeJob;
	readonly variants: readonly Variant[];
	readonly signing: readonly SigningKeyText[];
};

/** The message and the content that its template rendered, or why it could not be rendered (`message`). */
export type RerenderResult =
	| {
			readonly ok: true;
			readonly mail: Uint8Array;
			readonly content: {readonly subject: string; readonly html: string; readonly text: string};
	  }
	| {readonly ok: false; readonly message: string};

function remake({options, keys, publicUrl, now, job, variants, signing}: RerenderInput): RerenderResult {
	const renderer = createRenderer();
	let content = {subject: '', html: '', text: ''};
	const composer = new MessageComposer({
		...options,
		links: createLinks({keys, publicUrl, random: pooledRandom()}),
		renderer: {
			...renderer,
			renderPieces(variant, input) {
				const rendered = renderer.renderPieces(variant, input);
				if (rendered.ok) {
					const {subject, html, text} = rendered;
					content = {subject, html: joined(html), text: joined(text)};
				}
				return rendered;
			},
		},
		clock: {now: () => now, monotonic: () => 0},
	});
	const result = composer.make(job, {variants, signing: signing.map(importSigningKey)});
	if (!result.ok) {
		return {ok: false, message: result.unmade.message};
	}
	const {mail, subject} = result.message;
	return {ok: true, mail, content: submittedSource(job.attachments) === null ? content : {subject, ...toTexts(mail)}};
}

/** Returns the content of a submitted message, which is not rendered from a template. */
function toTexts(mail: Uint8Array): {readonly html: string; readonly text: string} {
	const leaves = collectLeaves(readMail(Buffer.from(mail)).root);
	const textOf = (mediaType: string) => leaves.find(({type}) => type === mediaType)?.text() ?? '';
	return {html: textOf('text/html'), text: textOf('text/plain')};
}

// A thread renders only one message, because templates are untrusted code.
await processInputs(input => remake(input as RerenderInput));
