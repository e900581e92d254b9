import {Worker} from 'node:worker_threads';
import {createGarbage, threadLimits} from '../kit/memory.ts';
import {entryPoint} from '../kit/program-files.ts';
import {processCpu} from '../kit/work-limit.ts';
import {findHiddenValues, type HiddenValues, maskHidden} from '../mail/hidden-values.ts';
import type {Attachment, Priority} from '../mail/message.ts';
import {simulatorDomain} from '../mail/simulator.ts';
import type {MessageRendering, Rendered, Unmade} from '../queue/attempt.ts';
import {Renderers} from '../queue/renderers.ts';
import {Permits} from '../queue/smtp-workers.ts';
import {listVariants} from '../resources/templates/store.ts';
import {listAttachments, sumAttachmentSizes} from '../store/messages.ts';
import type {Claimed} from '../store/queue/claims.ts';
import type {Context} from './context.ts';
import {Signing, toFeedback} from './recipient-messages.ts';
import type {RendererData} from './threads/renderer.ts';

const renderLimitMs = 2000;
/** How many octets of attachments may be in memory at once. The messages that contain them are a third larger. */
const maxAttached = 32 * 1024 * 1024;

/** Renders messages with what the store has about them: attachments, keys, templates and sensitive variables. */
export class Rendering implements MessageRendering {
	readonly #context: Context;
	readonly #signing: Signing;
	readonly #renderers: Renderers;
	readonly #attached = new Permits(maxAttached);
	readonly #countGarbage = createGarbage();

	/** `publicUrl` is the base URL of links in messages. */
	constructor(context: Context, publicUrl: string) {
		const {store, vault, clock, settings} = context;
		this.#context = context;
		this.#signing = new Signing(store, vault, clock, settings);
		this.#renderers = createRenderers(context, publicUrl, this.#signing);
	}

	async render(recipient: Claimed, priority: Priority): Promise<Rendered> {
		const domain = await this.#signing.of(recipient.domain_id ?? '');
		const attachments = await this.#readAttachments(recipient);
		const job = {
			recipient,
			attachments,
			returnPathDomain: domain.returnPathDomain ?? this.#context.settings.returnPathDomain,
			variables: openVariables(this.#context, recipient),
			linkHost: domain.linkHost,
			signing: domain.keyIds.join(','),
		};
		const result = await this.#renderers.make(job, priority === 'high');
		this.#countGarbage(attachments.reduce((sum, {content}) => sum + content.length, 0));
		return result.ok ? result : {ok: false, unmade: this.#maskUnmade(result.unmade, recipient)};
	}

	/** Starts a renderer. */
	prepare(): void {
		this.#renderers.prepare();
	}

	release({id}: Claimed): void {
		this.#attached.giveBack(id);
	}

	/** Drops cached data that others may have changed. */
	forget(): void {
		this.#signing.forget();
	}

	async stop(): Promise<void> {
		await this.#renderers.stop();
	}

	async #readAttachments(recipient: Claimed): Promise<Attachment[]> {
		if (recipient.attachments === 0) {
			return [];
		}
		const {reader} = this.#context.store;
		await this.#attached.take(recipient.id, await sumAttachmentSizes(reader, recipient.message_id));
		return await listAttachments(reader, recipient.message_id);
	}

	/** A template error may quote a value too. */
	#maskUnmade(unmade: Unmade, recipient: Claimed): Unmade {
		const hidden = openHiddenValues(this.#context, recipient);
		return hidden === null ? unmade : {...unmade, message: maskHidden(unmade.message, hidden)};
	}
}

type VariablesContext = Pick<Context, 'settings' | 'vault'>;

/** Returns the sensitive variables, or `null` if there are none or the message stays on this machine for viewing. */
function openVariables({settings, vault}: VariablesContext, recipient: Claimed): string | null {
	const {sealed, workspace_id: workspaceId, mode, destination} = recipient;
	const isSentOut = settings.delivery !== 'capture' && mode === 'live' && destination !== simulatorDomain;
	return sealed !== null && isSentOut ? vault.open(workspaceId, sealed) : null;
}

/** Returns the values that a mail server may quote and that must not be stored, or `null` if there are none. */
export function openHiddenValues(context: VariablesContext, recipient: Claimed): HiddenValues | null {
	const variables = openVariables(context, recipient);
	return variables === null ? null : findHiddenValues(recipient.data ?? '{}', variables);
}

/** Creates the renderers: threads that render, compose and sign. They request templates and keys by name. */
function createRenderers(
	{settings, clock, store, keys, observer}: Context,
	publicUrl: string,
	signing: Pick<Signing, 'keys'>,
) {
	return new Renderers({
		count: settings.renderers,
		limitMs: renderLimitMs,
		clock,
		cpu: processCpu,
		isUnavailable: store.dialect.isUnavailable,
		observer,
		spawn: shared =>
			new Worker(entryPoint('daemon/threads/renderer'), {
				workerData: {
					shared,
					time: store.clock.memory,
					keys,
					publicUrl,
					tokenLifetimeMs: settings.tokenLifetime,
					...toFeedback(settings),
				} satisfies RendererData,
				resourceLimits: threadLimits.renderer,
			}),
		async resource(name) {
			const [kind, key = ''] = name.split(':');
			if (kind === 'dkim') {
				return await signing.keys(key === '' ? [] : key.split(','));
			}
			const variants = await listVariants(store.reader, key);
			return variants.map((variant, position) => ({...variant, id: `${key}/${position}`}));
		},
	});
}
