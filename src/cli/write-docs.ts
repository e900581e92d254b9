import {writeFileSync} from 'node:fs';
import {mailctl} from './commands.ts';
import {cliPage} from './docs.ts';

writeFileSync('docs/cli.md', cliPage(await mailctl()));
