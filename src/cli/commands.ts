import {type CliCommand, createProgram} from './program.ts';

/** A noun, or a verb without one. `load` gives the command its verbs, or its options and work. */
type Entry = readonly [name: string, about: string, load: () => Promise<(command: CliCommand) => void>];

const entries: readonly Entry[] = [
	['serve', 'Run the daemon until SIGTERM or SIGINT', () => import('./serve.ts').then(each => each.serveCommand)],
	['init', 'Prepare the data folder for the first mail', () => import('./init.ts').then(each => each.initCommand)],
	[
		'migrate',
		'Bring the store to the schema of this version',
		() => import('./init.ts').then(each => each.migrateCommand),
	],
	['send', 'Send a mail through the running daemon', () => import('./send.ts').then(each => each.sendCommand)],
	[
		'doctor',
		'Check the machine, DNS names, delivery and bounces; say how to fix what is wrong',
		() => import('./doctor.ts').then(each => each.doctorCommand),
	],
	[
		'stats',
		'Count what became of the mail of the last days; all workspaces unless you name one',
		() => import('./stats.ts').then(each => each.statsCommand),
	],
	['tls', 'Show how TLS went, to your hosts and from here', () => import('./tls.ts').then(each => each.tlsCommand)],
	[
		'bench',
		'Measure how fast this machine sends, on a store of its own; or fill the store',
		() => import('./bench.ts').then(each => each.benchCommand),
	],
	[
		'export',
		'Write workspaces with their domains, senders, topics, webhooks and keys as YAML, without secrets',
		() => import('./apply.ts').then(each => each.exportCommand),
	],
	[
		'apply',
		'Make workspaces what a YAML file says; show what differs first',
		() => import('./apply.ts').then(each => each.applyCommand),
	],
	[
		'backup',
		'Write store and keys to one file, also beside a running daemon',
		() => import('./backup.ts').then(each => each.backupCommand),
	],
	[
		'restore',
		'Put the store of a backup into the data folder',
		() => import('./backup.ts').then(each => each.restoreCommand),
	],
	[
		'completion',
		'Print what lets a shell complete words of mailctl',
		async () => {
			const {completionCommand} = await import('./tree/tree.ts');
			return command => completionCommand(command, () => mailctl());
		},
	],
	[
		'config',
		'Settings: their effective values and where they come from',
		() => import('./config.ts').then(each => each.configCommands),
	],
	[
		'secrets',
		'The keys that seal what the store holds, and sign links',
		() => import('./secrets.ts').then(each => each.secretsCommands),
	],
	[
		'workspace',
		'Workspaces: separate senders, templates, lists and keys',
		() => import('./workspace.ts').then(each => each.workspaceCommands),
	],
	[
		'user',
		'Who may see the dashboard, and links that log in',
		() => import('./user.ts').then(each => each.userCommands),
	],
	['key', 'API keys of a workspace', () => import('./key.ts').then(each => each.keyCommands)],
	[
		'domain',
		'Domains that senders are in, their keys and DNS records',
		() => import('./domain.ts').then(each => each.domainCommands),
	],
	['sender', 'Addresses that mail may come from', () => import('./sender.ts').then(each => each.senderCommands)],
	['sample', 'What the first start made for a first mail', () => import('./init.ts').then(each => each.sampleCommands)],
	['template', 'Templates and their versions', () => import('./template.ts').then(each => each.templateCommands)],
	[
		'suppression',
		'Addresses that get no mail of a workspace',
		() => import('./suppression.ts').then(each => each.suppressionCommands),
	],
	[
		'topic',
		'Kinds of mail that recipients can opt out of',
		() => import('./topic.ts').then(each => each.topicCommands),
	],
	['message', 'Messages and what became of them', () => import('./message.ts').then(each => each.messageCommands)],
	[
		'contact',
		'Recipients: what is known of them, and its erasure',
		() => import('./contact.ts').then(each => each.contactCommands),
	],
	[
		'smarthost',
		'Providers that send your mail and post what became of it',
		() => import('./smarthost.ts').then(each => each.smarthostCommands),
	],
	[
		'certificate',
		'Certificates issued by a CA (MAILCTL_ACME)',
		() => import('./certificate.ts').then(each => each.certificateCommands),
	],
	[
		'inbound',
		'Addresses at which a workspace receives mail',
		() => import('./inbound.ts').then(each => each.inboundCommands),
	],
	['alert', 'Messages to you when something is wrong', () => import('./alert.ts').then(each => each.alertCommands)],
	[
		'webhook',
		'Endpoints that events are posted to, and what became of each',
		() => import('./webhook.ts').then(each => each.webhookCommands),
	],
	[
		'bounce',
		'What came back: bounces, complaints, and how they are read',
		() => import('./bounce.ts').then(each => each.bounceCommands),
	],
	[
		'audit',
		'Who changed what, when and from where; all workspaces unless you name one',
		() => import('./audit.ts').then(each => each.auditCommands),
	],
	['node', 'Daemons that share the store', () => import('./node.ts').then(each => each.nodeCommands)],
	[
		'queue',
		'Mail that waits; all workspaces unless you name one',
		() => import('./queue.ts').then(each => each.queueCommands),
	],
];

/**
 * The tree of commands. Loading them all takes longer than most commands do: with `words`, the arguments of a call, only
 * those that are named get their verbs.
 */
export async function mailctl(words?: readonly string[]): Promise<CliCommand> {
	const program = createProgram();
	for (const [name, about, load] of entries) {
		const command = program.command(name).description(about).helpCommand(false);
		if (!words || words.includes(name)) {
			const fill = await load();
			fill(command);
			// A noun's example is that of its first verb.
			const [first] = command.commands;
			command.addHelpText('after', () => (first ? `\nExample:\n  ${first.example}` : ''));
		}
	}
	return program;
}
