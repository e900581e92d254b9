import {writeFileSync} from 'node:fs';
import {exampleFile, settingsPage} from './docs.ts';

writeFileSync('docs/settings.md', settingsPage());
writeFileSync('config/mailctl.env.example', exampleFile());
