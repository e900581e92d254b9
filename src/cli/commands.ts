import {type CliCommand, createProgram} from './program.ts';

type Entry = {
	readonly name: string;
	readonly about: string;
	/** Gives the command its verbs, or its options and action. */
	readonly load: () => Promise<(command: CliCommand) => void>;
};

const entries: readonly Entry[] = [
	{
		name: 'serve',
		about: 'Run the daemon until SIGTERM or SIGINT',
		load: async () => (await import('./serve.ts')).serveCommand,
	},
	{
		name: 'init',
		about: 'Prepare the data folder for the first mail',
		load: async () => (await import('./init.ts')).initCommand,
	},
	{
		name: 'migrate',
		about: 'Bring the store to the schema of this version',
		load: async () => (await import('./init.ts')).migrateCommand,
	},
	{
		name: 'send',
		about: 'Send a mail through the running daemon',
		load: async () => (await import('./send.ts')).sendCommand,
	},
	{
		name: 'doctor',
		about: 'Check the machine, DNS names, delivery and bounces; say how to fix what is wrong',
		load: async () => (await import('./doctor.ts')).doctorCommand,
	},
	{
		name: 'stats',
		about: 'Count what became of the mail of the last days; all workspaces unless you name one',
		load: async () => (await import('./stats.ts')).statsCommand,
	},
	{
		name: 'bench',
		about: 'Measure how fast this machine sends, on a store of its own; or fill the store',
		load: async () => (await import('./bench.ts')).benchCommand,
	},
	{
		name: 'export',
		about: 'Write workspaces with their domains, senders, topics, webhooks and keys as YAML, without secrets',
		load: async () => (await import('./apply.ts')).exportCommand,
	},
	{
		name: 'apply',
		about: 'Make workspaces what a YAML file says; show what differs first',
		load: async () => (await import('./apply.ts')).applyCommand,
	},
	{
		name: 'backup',
		about: 'Write store and keys to one file, also beside a running daemon',
		load: async () => (await import('./backup.ts')).backupCommand,
	},
	{
		name: 'restore',
		about: 'Put the store of a backup into the data folder',
		load: async () => (await import('./backup.ts')).restoreCommand,
	},
	{
		name: 'completion',
		about: 'Print what lets a shell complete words of mailctl',
		load: async () => {
			const {completionCommand} = await import('./tree/tree.ts');
			return command => completionCommand(command, () => mailctl());
		},
	},
	{
		name: 'config',
		about: 'Settings: their effective values and where they come from',
		load: async () => (await import('./config.ts')).configCommands,
	},
	{
		name: 'secrets',
		about: 'The keys that seal what the store holds, and sign links',
		load: async () => (await import('./secrets.ts')).secretsCommands,
	},
	{
		name: 'workspace',
		about: 'Workspaces: separate senders, templates, lists and keys',
		load: async () => (await import('./workspace.ts')).workspaceCommands,
	},
	{
		name: 'user',
		about: 'Who may see the dashboard, and links that log in',
		load: async () => (await import('./user.ts')).userCommands,
	},
	{name: 'key', about: 'API keys of a workspace', load: async () => (await import('./key.ts')).keyCommands},
	{
		name: 'domain',
		about: 'Domains that senders are in, their keys and DNS records',
		load: async () => (await import('./domain.ts')).domainCommands,
	},
	{
		name: 'sender',
		about: 'Addresses that mail may come from',
		load: async () => (await import('./sender.ts')).senderCommands,
	},
	{
		name: 'sample',
		about: 'What the first start made for a first mail',
		load: async () => (await import('./init.ts')).sampleCommands,
	},
	{
		name: 'template',
		about: 'Templates and their versions',
		load: async () => (await import('./template.ts')).templateCommands,
	},
	{
		name: 'suppression',
		about: 'Addresses that get no mail of a workspace',
		load: async () => (await import('./suppression.ts')).suppressionCommands,
	},
	{
		name: 'topic',
		about: 'Kinds of mail that recipients can opt out of',
		load: async () => (await import('./topic.ts')).topicCommands,
	},
	{
		name: 'message',
		about: 'Messages and what became of them',
		load: async () => (await import('./message.ts')).messageCommands,
	},
	{
		name: 'contact',
		about: 'Recipients: what is known of them, and its erasure',
		load: async () => (await import('./contact.ts')).contactCommands,
	},
	{
		name: 'smarthost',
		about: 'Providers that send your mail and post what became of it',
		load: async () => (await import('./smarthost.ts')).smarthostCommands,
	},
	{
		name: 'webhook',
		about: 'Endpoints that events are posted to, and what became of each',
		load: async () => (await import('./webhook.ts')).webhookCommands,
	},
	{
		name: 'bounce',
		about: 'What came back: bounces, complaints, and how they are read',
		load: async () => (await import('./bounce.ts')).bounceCommands,
	},
	{
		name: 'audit',
		about: 'Who changed what, when and from where; all workspaces unless you name one',
		load: async () => (await import('./audit.ts')).auditCommands,
	},
	{
		name: 'node',
		about: 'Daemons that share the store',
		load: async () => (await import('./node.ts')).nodeCommands,
	},
	{
		name: 'queue',
		about: 'Mail that waits; all workspaces unless you name one',
		load: async () => (await import('./queue.ts')).queueCommands,
	},
];

/**
 * The tree of commands. Loading them all takes longer than most commands do: with `words`, the arguments of a call, only
 * those that are named get their verbs.
 */
export async function mailctl(words?: readonly string[]): Promise<CliCommand> {
	const program = createProgram();
	for (const {name, about, load} of entries) {
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
