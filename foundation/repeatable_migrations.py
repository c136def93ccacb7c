"""For migrations that commit each of their operations: a run that was interrupted is made again, from the first one."""

from typing import Any

from django.db import migrations


class AddMissingField(migrations.AddField):
    """Add a column, unless an interrupted run has added it."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Ask the database for its columns: the migrations know only what was finished."""
        model = to_state.apps.get_model(app_label, self.model_name)
        connection = schema_editor.connection
        with connection.cursor() as cursor:
            columns = connection.introspection.get_table_description(cursor, model._meta.db_table)
        if model._meta.get_field(self.name).column not in {column.name for column in columns}:
            super().database_forwards(app_label, schema_editor, from_state, to_state)
